// SPDX-License-Identifier: Apache-2.0
#include "segment.hpp"

#include <array>
#include <cstdio>
#include <limits>
#include <memory>

#include "device.hpp"
#include "errors.hpp"
#include "logical.hpp"
#include "names.hpp"
#include "weir/error.hpp"

namespace weir::vulkan {
namespace {

std::string asked(const Memory& memory) {
  return memory.logical.name() + ": " + std::to_string(memory.size) + " bytes of vulkan." +
         std::string(to_string(memory.kind));
}

/// What the memory of a buffer must be.
struct Needs {
  VkDeviceSize size;
  std::uint32_t type_bits;
  bool prefers_dedicated, requires_dedicated;

  Needs(const Logical& logical, VkBuffer buffer) {
    VkMemoryDedicatedRequirements dedication{};
    dedication.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_REQUIREMENTS;
    VkMemoryRequirements2 requirements{};
    requirements.sType = VK_STRUCTURE_TYPE_MEMORY_REQUIREMENTS_2;
    requirements.pNext = &dedication;
    VkBufferMemoryRequirementsInfo2 question{};
    question.sType = VK_STRUCTURE_TYPE_BUFFER_MEMORY_REQUIREMENTS_INFO_2;
    question.buffer = buffer;
    logical.fn.vkGetBufferMemoryRequirements2(logical.handle, &question, &requirements);
    size = requirements.memoryRequirements.size;
    type_bits = requirements.memoryRequirements.memoryTypeBits;
    prefers_dedicated = dedication.prefersDedicatedAllocation;
    requires_dedicated = dedication.requiresDedicatedAllocation;
  }
};

VkResult short_of(Shortage& shortage, const char* call, VkResult result) {
  shortage.call = call;
  shortage.native = make_code(result);
  return result;
}

}  // namespace

std::string usage_text(VkBufferUsageFlags usage) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "usage 0x%x", static_cast<unsigned>(usage));
  return text.data();
}

Memory::Memory(Logical& on, MemoryKind memory_kind, std::size_t bytes) noexcept : logical(on) {
  device = &on.device;
  kind = memory_kind;
  size = bytes;
  device_accessible = true;
  if (const auto* info = device->find(kind)) dlpack_device = info->dlpack_device;
  logical.add_segment(1);
}

Memory::~Memory() {
  const DriverCall call(Doing::destroy);
  if (!call) return;
  if (owned_) {
    logical.forget(*this);
    logical.fn.vkDestroyBuffer(logical.handle, buffer, nullptr);
    logical.fn.vkFreeMemory(logical.handle, memory, nullptr);  // this also unmaps it
  }
  if (counted_) logical.uncount_allocation();
  logical.add_segment(-1);
}

Memory* Memory::make(Logical& logical, MemoryKind kind, std::size_t bytes, bool exportable, Shortage& shortage,
                     VkBufferUsageFlags extra_usage) {
  const std::size_t round = exportable ? shared_granularity : granularity;
  const auto most = std::numeric_limits<std::size_t>::max() - (round - 1);
  if (bytes > most) {
    shortage.limit = most;
    return nullptr;
  }
  const NeededCall call(Doing::create);
  logical.collect();
  auto made = spi::Ref<Memory>::adopt(new Memory(logical, kind, (bytes + round - 1) & ~(round - 1)));
  made->exportable = made->shared = exportable;
  made->extra_usage_ = extra_usage;
  const VkResult result = made->build(-1, shortage);
  if (is_exhaustion(result)) return nullptr;
  check(result, shortage.call.c_str(), asked(*made));
  return made.detach();
}

VkResult Memory::build(int import_fd, Shortage& shortage) {
  const PhysicalDevice& physical = logical.device;
  const auto any_type = physical.memory_type(kind, ~0u).value();  // there is one, or the kind would not be listed
  shortage.limit = std::min(physical.heap_size(any_type), physical.max_buffer_size);
  if (size > shortage.limit) return VK_ERROR_OUT_OF_DEVICE_MEMORY;  // the driver need not be asked

  if (VkResult result = create_buffer(); result < 0) return short_of(shortage, "vkCreateBuffer", result);
  if (opened_ != 0) {
    if (allocation_size > opened_)
      throw Error(Errc::unsupported, asked(*this) + ": the VkBuffer needs memory of " +
                                         std::to_string(allocation_size) + " bytes, and the memory to open has " +
                                         std::to_string(opened_));
    allocation_size = opened_;
  }
  const auto type = physical.memory_type(kind, type_bits_);
  if (!type)
    throw Error(Errc::unsupported, asked(*this) + ": no memory type of that kind can hold " +
                                       (shared ? "an exportable" : "a") + " buffer");
  if (allocation_size > physical.heap_size(*type)) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  if (VkResult result = allocate(*type, import_fd); result < 0) {
    if (const auto heap = physical.heap(*type)) shortage.device_free = heap->free;
    return short_of(shortage, "vkAllocateMemory", result);
  }
  return finish(*type, shortage);
}

VkResult Memory::create_buffer(VkBufferUsageFlags usage, VkBuffer& made) const {
  VkExternalMemoryBufferCreateInfo external{};
  external.sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO;
  external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.pNext = shared ? &external : nullptr;
  info.size = size;
  info.usage = usage;
  return logical.fn.vkCreateBuffer(logical.handle, &info, nullptr, &made);
}

VkResult Memory::create_buffer() {
  const VkBufferUsageFlags usual = logical.device.usage();
  if (VkResult result = create_buffer(usual | extra_usage_, buffer); result < 0) return result;
  const Needs needs(logical, buffer);
  allocation_size = needs.size;
  type_bits_ = needs.type_bits;
  // Dedicated memory can be opened only for a buffer with the same usage, which an importer does not know. NVIDIA's
  // driver (580) prefers it for large buffers, and requires it for none.
  dedicated = needs.requires_dedicated || (needs.prefers_dedicated && !shared);
  return exportable && (extra_usage_ & ~usual) != 0 ? agree_with_importers() : VK_SUCCESS;
}

// A process that opens the memory makes its VkBuffer without the extra usage. The specification wants it to name the
// size and the memory type of this allocation (VkMemoryAllocateInfo, import of opaque descriptors), and dedicated
// memory to belong to a buffer that was made identically (VkMemoryDedicatedAllocateInfo).
VkResult Memory::agree_with_importers() {
  VkBuffer theirs = VK_NULL_HANDLE;
  if (VkResult result = create_buffer(logical.device.usage(), theirs); result < 0) return result;
  const Needs needs(logical, theirs);
  logical.fn.vkDestroyBuffer(logical.handle, theirs, nullptr);
  const auto type = [this](std::uint32_t bits) { return logical.device.memory_type(kind, bits); };
  const char* differ = needs.requires_dedicated || dedicated       ? "a dedicated allocation"
                       : needs.size != allocation_size             ? "another allocation size"
                       : type(needs.type_bits) != type(type_bits_) ? "another memory type"
                                                                   : nullptr;
  if (!differ) return VK_SUCCESS;
  throw Error(Errc::unsupported,
              asked(*this) + " with " + usage_text(extra_usage_) +
                  ": another process could not open the memory, because this driver's buffers want " + differ +
                  ": share a buffer without this usage, and copy");
}

VkResult Memory::allocate(std::uint32_t type, int import_fd) {
  VkMemoryAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.allocationSize = allocation_size;
  info.memoryTypeIndex = type;
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryDedicatedAllocateInfo dedication{};
  dedication.sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO;
  dedication.buffer = buffer;
  VkExportMemoryAllocateInfo exporting{};
  exporting.sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO;
  exporting.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  VkImportMemoryFdInfoKHR importing{};
  importing.sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR;
  importing.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT;
  importing.fd = import_fd;
  const auto chain = [&info](auto& extension) {
    extension.pNext = info.pNext;
    info.pNext = &extension;
  };
  if (logical.device.device_address) chain(flags);
  if (dedicated) chain(dedication);
  if (exportable) chain(exporting);
  if (import_fd >= 0) chain(importing);

  counted_ = logical.count_allocation();
  if (!counted_) return VK_ERROR_TOO_MANY_OBJECTS;
  if (import_fd >= 0) logical.keep_spares();
  const VkResult result = logical.fn.vkAllocateMemory(logical.handle, &info, nullptr, &memory);
  if (result < 0) (void)logical.free_spares();
  return result;
}

VkResult Memory::finish(std::uint32_t type, Shortage& shortage) {
  const PhysicalDevice& physical = logical.device;
  if (VkResult result = logical.fn.vkBindBufferMemory(logical.handle, buffer, memory, 0); result < 0)
    return short_of(shortage, "vkBindBufferMemory", result);
  whole = buffer;
  logical.remember(*this);
  name_memory(*this);
  if (physical.device_address) {
    VkBufferDeviceAddressInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
    info.buffer = buffer;
    address = logical.fn.vkGetBufferDeviceAddress(logical.handle, &info);
  }
  const VkMemoryPropertyFlags has = physical.type(type).propertyFlags;
  const bool mapped_here = device->find(kind)->host_accessible;
  // A GPU may keep memory that lies in the host in a cache until Vulkan's next submission, so work of another backend
  // would read old bytes. All memory of an integrated GPU lies there, so what the host maps has no views.
  viewable = exportable && (has & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) &&
             !(mapped_here && physical.device_type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU);
  if (!mapped_here) return VK_SUCCESS;  // even where it could be mapped: the same everywhere
  void* mapped = nullptr;
  if (VkResult result = logical.fn.vkMapMemory(logical.handle, memory, 0, VK_WHOLE_SIZE, 0, &mapped); result < 0)
    return short_of(shortage, "vkMapMemory", result);
  host = static_cast<std::byte*>(mapped);
  host_reads = true;
  host_coherent = !knobs().force_noncoherent && (has & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
  return VK_SUCCESS;
}

Memory* Memory::wrap(Logical& logical, const Foreign& foreign) {
  auto made = spi::Ref<Memory>::adopt(new Memory(logical, MemoryKind::external, foreign.bytes));
  made->owned_ = false;
  made->buffer = foreign.buffer;
  made->memory = foreign.memory;
  made->memory_offset = foreign.memory_offset;
  made->host = foreign.host;
  made->host_reads = foreign.host != nullptr;
  made->imported = true;
  made->dlpack_device =
      logical.device.find(foreign.host ? logical.device.staging_kind : MemoryKind::device)->dlpack_device;
  logical.with_owner(foreign.buffer, foreign.memory, [&](Memory& owner) { made->take_after(owner); });
  return made.detach();
}

// Take over what is known of `owner`, the memory of weir's own in which the wrapped buffer is.
void Memory::take_after(Memory& owner) {
  if (buffer == owner.buffer) {
    memory = owner.memory;
    memory_offset = owner.memory_offset;
  }
  host_reads = host_reads || owner.host_reads;
  if (!owner.shared) return;
  shared = true;
  whole = owner.whole;
  set_id(owner.id());
}

spi::MemoryName Memory::names() const noexcept {
  if (memory == VK_NULL_HANDLE) return {buffer, 0};
  return {memory, memory_offset};
}

bool Memory::overlaps(std::size_t begin, std::size_t end, const Memory& other, std::size_t other_begin,
                      std::size_t other_end) const noexcept {
  if (this != &other && buffer != other.buffer) {
    if (memory == VK_NULL_HANDLE || other.memory == VK_NULL_HANDLE) return true;  // nobody said where they are
    if (memory != other.memory && !(shared && known_as(other))) return false;
    begin += memory_offset;
    end += memory_offset;
    other_begin += other.memory_offset;
    other_end += other.memory_offset;
  }
  return begin < other_end && other_begin < end;
}

VkMappedMemoryRange Memory::mapped_range(std::size_t offset, std::size_t bytes) const noexcept {
  // Sizes and the granularity are multiples of every nonCoherentAtomSize.
  const std::size_t begin = offset & ~(granularity - 1);
  const std::size_t end = (offset + bytes + granularity - 1) & ~(granularity - 1);
  VkMappedMemoryRange range{};
  range.sType = VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE;
  range.memory = memory;
  range.offset = begin;
  range.size = end - begin;
  return range;
}

void Memory::before_host_read(std::size_t offset, std::size_t bytes) {
  if (host_coherent || bytes == 0) return;
  const NeededCall call(Doing::touch);
  const auto range = mapped_range(offset, bytes);
  check(logical.fn.vkInvalidateMappedMemoryRanges(logical.handle, 1, &range), "vkInvalidateMappedMemoryRanges",
        asked(*this));
}

// A flush writes whole atoms back. So the atoms at both ends must first hold what the device wrote into them.
void Memory::before_host_write(std::size_t offset, std::size_t bytes) {
  if (offset % granularity != 0) before_host_read(offset, 1);
  if ((offset + bytes) % granularity != 0) before_host_read(offset + bytes, 1);
}

void Memory::after_host_write(std::size_t offset, std::size_t bytes) {
  if (host_coherent || bytes == 0) return;
  const NeededCall call(Doing::touch);
  const auto range = mapped_range(offset, bytes);
  check(logical.fn.vkFlushMappedMemoryRanges(logical.handle, 1, &range), "vkFlushMappedMemoryRanges", asked(*this));
}

}  // namespace weir::vulkan
