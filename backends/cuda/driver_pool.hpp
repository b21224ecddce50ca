// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory pools of the driver. Freed memory goes back to the pool and not to the device.

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "pool_end.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::cuda {

class Gpu;
class GpuStream;

/// A driver pool that belongs to one resource alone and is made on first use. It lives as long as its allocations do.
class DriverPool final : public spi::Source, public std::enable_shared_from_this<DriverPool> {
 public:
  /// `max_size` 0 means no limit.
  DriverPool(Gpu& gpu, std::size_t release_threshold, std::size_t max_size, bool exportable = false) noexcept
      : gpu_(gpu), release_threshold_(release_threshold), max_size_(max_size), exportable_(exportable) {}
  DriverPool(const DriverPool&) = delete;
  DriverPool& operator=(const DriverPool&) = delete;
  ~DriverPool() override;

  /// Return the driver's pool; the first call makes it. Throws unsupported when there is a `max_size` and the driver
  /// cannot limit a pool.
  CUmemoryPool handle();
  [[nodiscard]] std::size_t max_size() const noexcept { return max_size_; }
  [[nodiscard]] bool exportable() const noexcept { return exportable_; }
  /// Return the file that names the pool for other processes. Only after handle(), of an exportable pool.
  [[nodiscard]] int file() const noexcept { return file_.get(); }
  [[nodiscard]] Gpu& gpu() const noexcept { return gpu_; }

  /// Remember that memory of this pool was freed in stream order on `stream`, whose context is current.
  void freed_on(const GpuStream& stream, CUstream native) noexcept;
  /// Free memory of this pool whose allocation and last use are complete. False when the driver refuses.
  [[nodiscard]] bool free(CUdeviceptr address) noexcept;
  /// Give back memory that nobody uses, without waiting. True when there was some.
  bool release_unused() noexcept;

  void count(ResourceStats& stats) const noexcept override;
  void trim(std::size_t bytes_to_keep, bool may_wait) noexcept override;

 private:
  CUmemoryPool make();
  void remember_free(std::uint64_t stream, CUstream native) noexcept;
  [[nodiscard]] CUmemoryPool made() const noexcept { return handle_.load(std::memory_order_acquire); }
  /// Return an attribute of the driver's pool; 0 when the driver does not say.
  [[nodiscard]] std::size_t ask(CUmemPool_attribute what) const noexcept;
  void wait_for_frees() noexcept;
  void see_frees() noexcept;

  Gpu& gpu_;
  const std::size_t release_threshold_, max_size_;
  const bool exportable_;
  std::atomic<CUmemoryPool> handle_{nullptr};
  std::unique_ptr<PoolEnd> end_;           // made with the handle
  spi::UniqueFd file_;                     // too: the driver names memory only of pools that it has named
  mutable std::atomic<bool> lost_{false};  // lost with the device: the driver keeps what the pool holds

  std::mutex mutex_;
  PoolFrees frees_;
  std::size_t most_frees_ = 0;  // with this many, complete ones are forgotten
};

}  // namespace weir::cuda
