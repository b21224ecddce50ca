// SPDX-License-Identifier: Apache-2.0
#pragma once
// One GPU: its primary context, its driver pool, and what streams of it share.

#include <cuda.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "events.hpp"
#include "value_gates.hpp"
#include "weir/spi/backend.hpp"

namespace weir::cuda {

class GpuStream;

/// A pool of the driver that is ours alone. Destroying it leaves its live allocations valid.
class DriverPool {
 public:
  /// `max_size` 0 means no limit. Throws unsupported when the driver cannot limit a pool.
  DriverPool(const spi::DeviceState& device, std::size_t release_threshold, std::size_t max_size);
  DriverPool(const DriverPool&) = delete;
  DriverPool& operator=(const DriverPool&) = delete;
  ~DriverPool();
  [[nodiscard]] CUmemoryPool handle() const noexcept { return handle_; }
  [[nodiscard]] std::size_t max_size() const noexcept { return max_size_; }

 private:
  const spi::DeviceState& device_;
  CUmemoryPool handle_ = nullptr;
  std::size_t max_size_;
};

/// The primary context is retained on first use and never released: other libraries share it, and process exit takes
/// it down. Everything here is thread-safe.
class Gpu final : public spi::DeviceState {
 public:
  /// Reads the attributes only; makes no context. Throws when the driver refuses.
  Gpu(const spi::Backend& owner, int index);

  [[nodiscard]] CUdevice handle() const noexcept { return handle_; }
  /// Whether streams can wait for 64-bit values in memory.
  [[nodiscard]] bool waits_for_values() const noexcept { return waits_for_values_; }

  CUcontext context();
  EventPool& events();  ///< of the primary context
  DriverPool& pool();   ///< never gives memory back at a synchronization
  ValueGates& gates();  ///< waits for what only the host can see
  /// For what must run on this device on behalf of streams elsewhere. When an error has ended one, a new one takes its
  /// place: it was everybody's.
  GpuStream& side_stream();
  /// The same, ended or not, for frees. There must have been one.
  GpuStream& last_side_stream() noexcept { return *side_stream_.load(std::memory_order_acquire); }
  /// How many there were. They are never destroyed, because their users come from everywhere.
  std::size_t side_streams() const noexcept { return side_streams_.load(); }

  /// Bytes that the device reports as free; 0 when it does not say.
  std::size_t free_memory() noexcept;

 private:
  template <class T, class Make>
  T& once(std::atomic<T*>& slot, Make make);
  void list_kinds();
  bool has(CUdevice_attribute attribute) const;

  CUdevice handle_ = 0;
  bool waits_for_values_ = false;
  std::recursive_mutex mutex_;
  std::atomic<CUcontext> context_{nullptr};
  std::atomic<EventPool*> events_{nullptr};
  std::atomic<DriverPool*> pool_{nullptr};
  std::atomic<ValueGates*> gates_{nullptr};
  std::atomic<GpuStream*> side_stream_{nullptr};
  std::atomic<std::size_t> side_streams_{0};
};

/// What describes a VMM allocation on the device with that ordinal.
CUmemAllocationProp vmm_properties(int ordinal, bool exportable) noexcept;

/// The device's state as ours, for states of this backend.
inline Gpu& gpu_of(spi::DeviceState& device) noexcept { return static_cast<Gpu&>(device); }

/// DLDeviceType of each place that CUDA memory can be.
inline constexpr std::int32_t dlpack_cuda = 2, dlpack_cuda_host = 3, dlpack_cuda_managed = 13;

}  // namespace weir::cuda
