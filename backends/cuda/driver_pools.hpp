// SPDX-License-Identifier: Apache-2.0
#pragma once
// All driver pools of one device.

#include <cstddef>
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
  /// Give back unused memory of all pools, because the device has no memory left. True when there was some.
  bool release_unused() noexcept;
  /// Return where pools wait for their ends.
  weir::detail::ReleaseQueue& ends() noexcept { return ends_; }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<DriverPool>> pools_;
  weir::detail::ReleaseQueue ends_;
};

}  // namespace weir::cuda
