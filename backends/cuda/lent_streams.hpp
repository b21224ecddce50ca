// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where memory of a driver's pool is allocated for streams that are not CUDA's.

#include <cstddef>
#include <deque>
#include <mutex>

#include "weir/spi/ref.hpp"

namespace weir::cuda {

class Gpu;

/// A few streams of the device. One is lent to one allocation at a time, and only when all that it had is over, so that
/// nobody waits for what somebody else's allocation waits for.
class LentStreams {
 public:
  static constexpr std::size_t most = 8;  ///< kept; further ones end with what is on them

  explicit LentStreams(Gpu& gpu) noexcept : gpu_(gpu) {}

  /// A GpuStream that has nothing to do. Throws when it cannot be made.
  spi::Ref<spi::StreamState> take();
  void give_back(spi::Ref<spi::StreamState> stream) noexcept;
  /// How many are kept.
  [[nodiscard]] std::size_t count() noexcept;

 private:
  Gpu& gpu_;
  std::mutex mutex_;
  std::deque<spi::Ref<spi::StreamState>> kept_;
};

}  // namespace weir::cuda
