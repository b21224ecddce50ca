// SPDX-License-Identifier: Apache-2.0
#pragma once
// The streams on which a driver pool allocates memory for streams that are not CUDA's.

#include <cstddef>
#include <deque>
#include <mutex>

#include "weir/spi/ref.hpp"

namespace weir::cuda {

class Gpu;

/// A few streams of the device. Each is lent to one allocation at a time, and only when all its work is complete. So
/// nobody waits for what somebody else's allocation waits for.
class LentStreams {
 public:
  static constexpr std::size_t most = 8;  ///< streams that are kept; further ones end once their work is done

  explicit LentStreams(Gpu& gpu) : gpu_(gpu) {}

  /// Lend a GpuStream that has nothing to do; make one if none is kept. Throws when it cannot be made.
  spi::Ref<spi::StreamState> take();
  void give_back(spi::Ref<spi::StreamState> stream) noexcept;
  /// Return how many streams are kept.
  [[nodiscard]] std::size_t count() noexcept;

 private:
  Gpu& gpu_;
  std::mutex mutex_;
  std::deque<spi::Ref<spi::StreamState>> kept_;
};

}  // namespace weir::cuda
