// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a stream waits for what only the host can see, such as an event of another backend. The stream waits for a 64-bit
// word in pinned memory, which a host thread writes.

#include <cuda.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

namespace weir::cuda {

class Gpu;

/// A few words per device. When eight streams wait for values, every stream of the process stalls. So at most `count`
/// words are in use at a time, and further waits must be made in another way.
class ValueGates {
 public:
  static constexpr std::size_t count = 4;

  /// A word in use: streams wait until it holds at least `value`.
  struct Gate {
    std::size_t index;
    CUdeviceptr address;
    std::uint64_t value;
  };

  explicit ValueGates(Gpu& gpu);
  /// Return a closed gate, or none when all are in use.
  std::optional<Gate> take();
  /// Let the waiting streams pass, and give the word back.
  void open(const Gate& gate) noexcept;

 private:
  struct alignas(64) Word {
    std::uint64_t value;
  };
  std::mutex mutex_;
  Word* words_ = nullptr;  // pinned, never given back
  CUdeviceptr address_ = 0;
  std::array<bool, count> used_{};
};

}  // namespace weir::cuda
