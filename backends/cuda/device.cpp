// SPDX-License-Identifier: Apache-2.0
#include "device.hpp"

#include <array>
#include <cstring>

#include "context_scope.hpp"
#include "stream.hpp"
#include "weir/error.hpp"

namespace weir::cuda {

CUmemAllocationProp vmm_properties(int ordinal, bool exportable) noexcept {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal;
  properties.requestedHandleTypes = exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  return properties;
}

Gpu::Gpu(const spi::Backend& owner, int index) {
  backend = &owner;
  ordinal = index;
  is_gpu = true;
  check(cuda::driver().DeviceGet(&handle_, index), "cuDeviceGet", "device ", index);
  std::array<char, 256> text{};
  check(cuda::driver().DeviceGetName(text.data(), static_cast<int>(text.size()), handle_), "cuDeviceGetName", "device ",
        index);
  name = text.data();
  CUuuid id{};
  check(cuda::driver().DeviceGetUuid(&id, handle_), "cuDeviceGetUuid", "device ", index);
  static_assert(sizeof id.bytes == sizeof uuid.bytes);
  std::memcpy(uuid.bytes.data(), id.bytes, sizeof id.bytes);
  check(cuda::driver().DeviceTotalMem(&total_memory, handle_), "cuDeviceTotalMem", "device ", index);
  spi::DeviceState::driver = describe_driver();
  waits_for_values_ = has(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
  stores_values_ = waits_for_values_ && has(CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM) &&
                   has(CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
  if (!has(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)) {
    throw Error(Errc::unsupported, describe() + " has no unified addressing");
  }
  list_kinds();
}

bool Gpu::has(CUdevice_attribute attribute) const {
  int value = 0;
  const auto result = cuda::driver().DeviceGetAttribute(&value, attribute, handle_);
  if (result == CUDA_ERROR_INVALID_VALUE) return false;  // the attribute is newer than the driver
  check(result, "cuDeviceGetAttribute", "device ", ordinal);
  return value != 0;
}

void Gpu::list_kinds() {
  const auto add = [&](MemoryKind kind, bool host, std::int32_t dlpack, bool blocks) -> KindInfo& {
    return kinds.emplace_back(KindInfo{.kind = kind,
                                       .host_accessible = host,
                                       .device_accessible = true,
                                       .alignment = 256,
                                       .dlpack_device = dlpack,
                                       .release_blocks = blocks});
  };
  if (has(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)) add(MemoryKind::async, false, dlpack_cuda, false);
  add(MemoryKind::device, false, dlpack_cuda, true);
  const auto properties = vmm_properties(ordinal, false);
  std::size_t granularity = 0;
  if (has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
      cuda::driver().MemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
          CUDA_SUCCESS &&
      granularity != 0) {
    KindInfo& vmm = add(MemoryKind::vmm, false, dlpack_cuda, false);
    vmm.alignment = vmm.granularity = granularity;
    vmm.paged = true;
    vmm.exportable = has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  }
  add(MemoryKind::pinned, true, dlpack_cuda_host, true);
  // Without concurrent access, the host may not touch managed memory while the device is busy, whatever the device
  // does.
  if (has(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)) add(MemoryKind::managed, true, dlpack_cuda_managed, true);
  default_kind = kinds.front().kind;
  staging_kind = MemoryKind::pinned;
}

CUcontext Gpu::context() {
  if (auto* context = context_.load(std::memory_order_acquire)) return context;
  const std::scoped_lock lock(mutex_);
  if (auto* context = context_.load(std::memory_order_relaxed)) return context;
  CUcontext context = nullptr;
  check(cuda::driver().DevicePrimaryCtxRetain(&context, handle_), "cuDevicePrimaryCtxRetain", *this);
  context_.store(context, std::memory_order_release);
  return context;
}

// The memory stays registered. cuMemHostUnregister is like cuMemFreeHost: it waits for all work on the device, and so
// does meanwhile every thread that puts work there.
bool Gpu::reach_host(void* data, std::size_t bytes) {
  if (!stores_values_) return false;
  const ContextScope scope(context());
  const auto registered =
      cuda::driver().MemHostRegister(data, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  if (registered == CUDA_ERROR_OUT_OF_MEMORY) check(registered, "cuMemHostRegister", bytes, " bytes for ", *this);
  report_failure(registered, "cuMemHostRegister", *this);
  return registered == CUDA_SUCCESS;
}

template <class T, class Make>
T& Gpu::once(std::atomic<T*>& slot, Make make) {
  if (T* object = slot.load(std::memory_order_acquire)) return *object;
  const std::scoped_lock lock(mutex_);
  if (T* object = slot.load(std::memory_order_relaxed)) return *object;
  T* object = make();
  slot.store(object, std::memory_order_release);
  return *object;
}

EventPool& Gpu::events() {
  return once(events_, [&] { return new EventPool(context()); });
}

bool Gpu::add_follower() noexcept {
  constexpr std::size_t most = 7 - ValueGates::count;
  auto now = followers_.load();
  while (now < most) {
    if (followers_.compare_exchange_weak(now, now + 1)) return true;
  }
  return false;
}

ValueGates& Gpu::gates() {
  return once(gates_, [&] { return new ValueGates(*this); });
}

GpuStream& Gpu::whole_context() {
  return once(whole_context_, [&] { return GpuStream::create_for_context(*this); });
}

std::optional<spi::DeviceMemory> Gpu::memory() noexcept {
  const auto made = context_.load(std::memory_order_acquire);
  if (!made) return {};
  try {
    const ContextScope scope(made);
    std::size_t free = 0, total = 0;
    if (cuda::driver().MemGetInfo(&free, &total) == CUDA_SUCCESS) return spi::DeviceMemory{total, free};
  } catch (...) {  // then it does not say
  }
  return {};
}

}  // namespace weir::cuda
