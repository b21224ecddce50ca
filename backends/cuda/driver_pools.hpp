// SPDX-License-Identifier: Apache-2.0
#pragma once
// All driver pools of one device.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "stream/release_queue.hpp"

namespace weir::cuda {

class DriverPool;
class Gpu;

class DriverPools {
 public:
  explicit DriverPools(const Gpu& gpu);
  void add(const std::shared_ptr<DriverPool>& pool);
  /// Return how many there are, each of which has a stream.
  [[nodiscard]] std::size_t count() noexcept;
  /// Give back unused memory of all pools, because the device has no memory left. True when there was some. If there is
  /// none, wait for pools whose handles are gone to end, for at most 1 s: their memory is nobody's.
  bool release_unused() noexcept;
  /// Return where pools wait for their ends.
  weir::detail::ReleaseQueue& ends() noexcept { return ends_; }
  /// Return how many pools have ended so far.
  [[nodiscard]] std::uint64_t ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  void count_end() noexcept { ended_.fetch_add(1, std::memory_order_release); }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<DriverPool>> pools_;
  weir::detail::ReleaseQueue ends_;
  std::atomic<std::uint64_t> ended_{0};
};

}  // namespace weir::cuda
