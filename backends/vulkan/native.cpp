// SPDX-License-Identifier: Apache-2.0
// weir/vulkan.hpp: resources and native handles.
#include "weir/vulkan.hpp"

#include <mutex>

#include "backend.hpp"
#include "handles.hpp"
#include "logical.hpp"
#include "weir/error.hpp"
#include "weir/spi/resources.hpp"
#include "weir/spi/view.hpp"

namespace weir::vulkan {
namespace {

static_assert(static_cast<std::uint32_t>(BufferUsage::uniform_texel) == VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT);
static_assert(static_cast<std::uint32_t>(BufferUsage::storage_texel) == VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT);
static_assert(static_cast<std::uint32_t>(BufferUsage::index) == VK_BUFFER_USAGE_INDEX_BUFFER_BIT);
static_assert(static_cast<std::uint32_t>(BufferUsage::vertex) == VK_BUFFER_USAGE_VERTEX_BUFFER_BIT);
static_assert(static_cast<std::uint32_t>(BufferUsage::indirect) == VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT);

ResourcePtr make(const Device& device, MemoryKind kind, const BufferOptions& options) {
  PhysicalDevice& state = physical(device, "vulkan resource");
  const auto usage = static_cast<VkBufferUsageFlags>(options.usage);
  auto made = spi::make_segment_resource(state, kind, options.exportable, usage);
  if (!options.exportable || usage == 0) return made;
  const PhysicalDevice::Making making(state);
  const NeededCall call(Doing::share);
  if (!state.shares(usage))
    throw Error(Errc::unsupported, state.describe() + ": the driver does not share vulkan." +
                                       std::string(to_string(kind)) + " buffers with " + usage_text(usage) +
                                       ": ask for less usage, or for no export");
  return made;
}

Memory& mapped(const Buffer& buffer, const char* what, std::size_t& offset) {
  auto* memory = memory_of(buffer, what, offset);
  if (!memory || !memory->host)
    throw Error(Errc::invalid_argument, std::string(what) + ": the buffer is not host-accessible");
  return *memory;
}

}  // namespace

Memory* memory_of(const Buffer& buffer, const char* what, std::size_t& offset, spi::DeviceState* on) {
  const auto place = buffer.location();
  offset = place.offset;
  spi::DeviceState& owner = place.segment ? *place.segment->device : buffer.device().state();
  if (owner.backend == backend()) return static_cast<Memory*>(place.segment);
  spi::DeviceState* const viewer = on ? on : spi::viewer_of(owner, backend()->name);
  if (!viewer || !spi::can_view(*viewer, owner))
    throw Error(Errc::invalid_argument, std::string(what) + ": " + Device(owner).id() + " is not a Vulkan device" +
                                            (on ? ", nor the GPU of " + on->describe() : ""));
  if (!place.segment) return nullptr;
  if (!place.segment->viewable)
    throw Error(Errc::invalid_argument, std::string(what) + ": the buffer's memory of " + owner.describe() +
                                            " was not made for Vulkan: see cuda::VmmOptions::vulkan");
  return static_cast<Memory*>(&spi::view(*viewer, *place.segment));
}

BatchedStream& stream_of(const Stream& stream, const char* what) {
  physical(stream.device(), what).check_process();
  return static_cast<BatchedStream&>(stream.state());
}

Device device(int ordinal) { return weir::device("vulkan:" + std::to_string(ordinal)); }

ResourcePtr make_device_resource(const Device& device, const BufferOptions& options) {
  return make(device, MemoryKind::device, options);
}
ResourcePtr make_upload_resource(const Device& device, const BufferOptions& options) {
  return make(device, MemoryKind::upload, options);
}
ResourcePtr make_readback_resource(const Device& device, const BufferOptions& options) {
  return make(device, MemoryKind::readback, options);
}
ResourcePtr make_mappable_resource(const Device& device, const BufferOptions& options) {
  return make(device, MemoryKind::mappable, options);
}

namespace {

NativeBuffer handles_of(const Buffer& buffer, spi::DeviceState* on) {
  std::size_t offset = 0;
  const auto* memory = memory_of(buffer, "vulkan::native", offset, on);
  if (!memory) return {};
  if (on && memory->device != on)
    throw Error(Errc::invalid_argument,
                "vulkan::native: the buffer is of " + memory->logical.name() + ", and not of " + on->describe());
  NativeBuffer handles;
  handles.buffer = memory->buffer;
  handles.offset = offset;
  handles.size = buffer.size();
  handles.memory = memory->memory;
  handles.memory_offset = memory->memory_offset + offset;
  handles.allocation_size = memory->allocation_size;
  handles.dedicated = memory->dedicated;
  handles.device_address = memory->address ? memory->address + offset : 0;
  return handles;
}

}  // namespace

NativeBuffer native(const Buffer& buffer) { return handles_of(buffer, nullptr); }

NativeBuffer native(const Buffer& buffer, const Device& device) {
  return handles_of(buffer, &physical(device, "vulkan::native"));
}

NativeStream native(const Stream& stream) {
  auto& state = stream_of(stream, "vulkan::native");
  const auto value = state.put(spi::MarkOp{});  // the semaphore may lag behind what was done on the host
  if (!state.wait_submitted(value)) state.throw_if_lost();
  state.ensure_marked(value);
  return {state.logical().handle, state.queue().handle, state.logical().device.family, state.timeline()->semaphore(),
          state.semaphore_value(value)};
}

void wait(const Stream& stream, VkSemaphore_T* semaphore, std::uint64_t value) {
  auto& state = stream_of(stream, "vulkan::wait");
  if (!semaphore) throw Error(Errc::invalid_argument, "vulkan::wait: the semaphore is null");
  const auto point = spi::Ref<spi::StreamState>::adopt(new ForeignPoint(state.logical(), semaphore, value));
  state.put(spi::WaitOp{spi::Kept(*point), 1});
}

void with_queue(const Stream& stream, const std::function<void(VkQueue_T*)>& function) {
  auto& queue = stream_of(stream, "vulkan::with_queue").queue();
  const std::scoped_lock lock(queue);
  function(queue.handle);
}

void flush(const Buffer& buffer) {
  if (buffer.size() == 0 && !buffer.is_closed()) return;
  std::size_t offset = 0;
  mapped(buffer, "vulkan::flush", offset).after_host_write(offset, buffer.size());
}

void invalidate(const Buffer& buffer) {
  if (buffer.size() == 0 && !buffer.is_closed()) return;
  std::size_t offset = 0;
  mapped(buffer, "vulkan::invalidate", offset).before_host_read(offset, buffer.size());
}

Buffer wrap(const Device& device, const ExternalBuffer& external, std::function<void()> release, const Stream& stream) {
  PhysicalDevice& state = physical(device, "vulkan::wrap");
  if (!external.buffer || external.bytes == 0)
    throw Error(Errc::invalid_argument, "vulkan::wrap: a null VkBuffer, or zero bytes, names no memory");
  const PhysicalDevice::Making making(state);
  auto segment = spi::Ref<spi::Segment>::adopt(
      Memory::wrap(making.logical(), {external.buffer, external.memory, external.memory_offset, external.bytes,
                                      static_cast<std::byte*>(external.host)}));
  Buffer buffer = spi::make_adopted_buffer(segment, 0, external.bytes, stream);
  segment->owner_release = std::move(release);
  return buffer;
}

}  // namespace weir::vulkan
