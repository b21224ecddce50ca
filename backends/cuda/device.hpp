// SPDX-License-Identifier: Apache-2.0
#pragma once
// One GPU: its primary context, and what its streams and resources share.

#include <cuda.h>

#include <atomic>
#include <mutex>

#include "driver_pools.hpp"
#include "events.hpp"
#include "lent_streams.hpp"
#include "value_gates.hpp"
#include "weir/spi/backend.hpp"

namespace weir::cuda {

class GpuStream;

/// The primary context is retained on first use and never released, because other libraries share it and process exit
/// takes it down. Everything here is thread-safe.
class Gpu final : public spi::DeviceState {
 public:
  /// Read the attributes only; make no context. Throws when the driver refuses.
  Gpu(const spi::Backend& owner, int index);

  [[nodiscard]] CUdevice handle() const noexcept { return handle_; }
  /// Whether streams can wait for 64-bit values in memory.
  [[nodiscard]] bool waits_for_values() const noexcept { return waits_for_values_; }
  /// Whether streams can store 64-bit values at the host's own addresses, once that memory is registered.
  [[nodiscard]] bool stores_values() const noexcept { return stores_values_; }
  /// Registers the memory for all devices.
  bool reach_host(void* data, std::size_t bytes) override;

  CUcontext context();
  EventPool& events();         ///< of the primary context
  ValueGates& gates();         ///< for streams that wait for what only the host can see
  GpuStream& whole_context();  ///< whose points cover all work of the primary context
  /// Of weir's own streams, those that wait on the device for what a peer owes. With eight streams that wait, and have
  /// work behind the wait, every other stream of the process stalls, and with 32 the driver does not even make new
  /// ones. What the peer owes may depend on those. So there are at most seven, with those that may wait at `gates`.
  [[nodiscard]] std::size_t followers() const noexcept { return followers_; }
  /// Count one more, unless there are as many as there may be.
  [[nodiscard]] bool add_follower() noexcept;
  void end_follower() noexcept { --followers_; }
  LentStreams& lent_streams() noexcept { return lent_streams_; }
  DriverPools& pools() noexcept { return pools_; }

  /// Return what the device says of its memory; empty when it does not say. Makes no context for that.
  std::optional<spi::DeviceMemory> memory() noexcept;

 private:
  template <class T, class Make>
  T& once(std::atomic<T*>& slot, Make make);
  void list_kinds();
  bool has(CUdevice_attribute attribute) const;

  CUdevice handle_ = 0;
  bool waits_for_values_ = false, stores_values_ = false;
  std::recursive_mutex mutex_;
  std::atomic<CUcontext> context_{nullptr};
  std::atomic<EventPool*> events_{nullptr};
  std::atomic<ValueGates*> gates_{nullptr};
  std::atomic<GpuStream*> whole_context_{nullptr};
  std::atomic<std::size_t> followers_{0};
  LentStreams lent_streams_{*this};
  DriverPools pools_{*this};
};

/// Return the properties of a VMM allocation on the device with this ordinal.
CUmemAllocationProp vmm_properties(int ordinal, bool exportable) noexcept;

/// Return the device's state as a Gpu. Only for devices of this backend.
inline Gpu& gpu_of(spi::DeviceState& device) noexcept { return static_cast<Gpu&>(device); }

/// The DLDeviceType for each place where CUDA memory can be.
inline constexpr std::int32_t dlpack_cuda = 2, dlpack_cuda_host = 3, dlpack_cuda_managed = 13;

}  // namespace weir::cuda
