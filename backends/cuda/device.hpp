// SPDX-License-Identifier: Apache-2.0
#pragma once
// One GPU: its primary context, and what streams and resources of it share.

#include <cuda.h>

#include <atomic>
#include <mutex>

#include "driver_pool.hpp"
#include "events.hpp"
#include "lent_streams.hpp"
#include "value_gates.hpp"
#include "weir/spi/backend.hpp"

namespace weir::cuda {

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
  ValueGates& gates();  ///< waits for what only the host can see
  LentStreams& lent_streams() noexcept { return lent_streams_; }
  DriverPools& pools() noexcept { return pools_; }

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
  std::atomic<ValueGates*> gates_{nullptr};
  LentStreams lent_streams_{*this};
  DriverPools pools_;
};

/// What describes a VMM allocation on the device with that ordinal.
CUmemAllocationProp vmm_properties(int ordinal, bool exportable) noexcept;

/// The device's state as ours, for states of this backend.
inline Gpu& gpu_of(spi::DeviceState& device) noexcept { return static_cast<Gpu&>(device); }

/// DLDeviceType of each place that CUDA memory can be.
inline constexpr std::int32_t dlpack_cuda = 2, dlpack_cuda_host = 3, dlpack_cuda_managed = 13;

}  // namespace weir::cuda
