// SPDX-License-Identifier: Apache-2.0
#include "weir/cuda.hpp"

#include "device.hpp"
#include "driver_pool.hpp"
#include "segment.hpp"
#include "stream.hpp"
#include "weir/buffer.hpp"
#include "weir/error.hpp"
#include "weir/spi/resources.hpp"
#include "weir/spi/view.hpp"

namespace weir::cuda {

const spi::Backend* backend() noexcept;

namespace {

Gpu& gpu_of(const Device& device) {
  if (device.state().backend != backend()) {
    throw Error(Errc::incompatible, device.state().describe() + " is not a CUDA device");
  }
  return static_cast<Gpu&>(device.state());
}

}  // namespace

Device device(int ordinal) { return weir::device("cuda:" + std::to_string(ordinal)); }

ResourcePtr make_device_resource(const Device& device) {
  return spi::make_segment_resource(gpu_of(device), MemoryKind::device, false);
}

ResourcePtr make_async_resource(const Device& device, const AsyncOptions& options) {
  Gpu& gpu = gpu_of(device);
  if (!gpu.find(MemoryKind::async)) throw Error(Errc::unsupported, gpu.describe() + " has no driver memory pools");
  auto pool = std::make_shared<DriverPool>(gpu, options.release_threshold, options.max_size, options.exportable);
  (void)pool->handle();  // makes the pool, so that options are refused here
  return spi::make_segment_resource(gpu, MemoryKind::async, false, 0, std::move(pool));
}

ResourcePtr make_vmm_resource(const Device& device, const VmmOptions& options) {
  Gpu& gpu = gpu_of(device);
  if (!options.vulkan) return make_resource(Device(gpu), MemoryKind::vmm, {.exportable = options.exportable});
  return spi::make_segment_resource(gpu, MemoryKind::vmm, true, viewed_by_others);
}

ResourcePtr make_pinned_resource(const Device& device) {
  return spi::make_segment_resource(gpu_of(device), MemoryKind::pinned, false);
}

ResourcePtr make_managed_resource(const Device& device) {
  return spi::make_segment_resource(gpu_of(device), MemoryKind::managed, false);
}

Stream borrow(const Device& device, CUstream_st* stream, std::shared_ptr<void> owner) {
  Gpu& gpu = gpu_of(device);
  gpu.check_process();
  return Stream(GpuStream::borrow(gpu, stream, std::move(owner)));
}

CUstream_st* native(const Stream& stream) {
  auto& state = stream.state();
  if (state.device().backend != backend()) {
    throw Error(Errc::incompatible, "a stream of " + state.device().describe() + " is not a CUDA stream");
  }
  return static_cast<GpuStream&>(state).hand_out();
}

unsigned long long pointer(const Buffer& buffer) {
  const auto place = buffer.location();
  if (!place.segment) return 0;
  spi::DeviceState& owner = *place.segment->device;
  if (owner.backend == backend()) return place.segment->address + place.offset;
  spi::DeviceState* const viewer = spi::viewer_of(owner, backend()->name);
  if (viewer && place.segment->viewable) return spi::view(*viewer, *place.segment).address + place.offset;
  const char* why = "";
  if (viewer) {
    why = place.segment->exportable ? ": it lies in the host's memory; use its host pointer"
                                    : ": its resource is not exportable";
  }
  throw Error(Errc::incompatible, "memory of " + owner.describe() + " has no CUDA pointer" + why);
}

}  // namespace weir::cuda
