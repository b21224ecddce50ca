// SPDX-License-Identifier: Apache-2.0
#pragma once
// What only Vulkan has: resources by intent, native handles, and life inside an application that brings its own
// VkDevice. Needs no vulkan.h: the handles are forward-declared exactly as in that header.
//
// Images are not weir's: it allocates memory for buffers alone, and puts no VkImage into that memory. An application
// that has images takes their memory from vkAllocateMemory or from another allocator, such as VMA, on the same
// VkDevice: `adopt` gives weir that device, and neither needs to know of the other. `submit` orders copies between such
// images and weir's buffers.
//
// Every function throws invalid_argument for a device, stream or buffer that is not Vulkan's, and for null handles.

#include <cstdint>
#include <functional>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

struct VkInstance_T;
struct VkPhysicalDevice_T;
struct VkDevice_T;
struct VkQueue_T;
struct VkBuffer_T;
struct VkDeviceMemory_T;
struct VkSemaphore_T;
struct VkCommandBuffer_T;

static_assert(sizeof(void*) == 8, "Vulkan's non-dispatchable handles are pointers on 64-bit systems only");

/// What only Vulkan has: memory by intent, native handles, adopted devices.
namespace weir::vulkan {

/// Return the device "vulkan:`ordinal`". Discrete GPUs come first, then integrated GPUs, virtual GPUs and CPUs. Throws
/// invalid_argument.
[[nodiscard]] WEIR_API Device device(int ordinal = 0);

/// What the VkBuffers of a resource are for, besides the uses that every VkBuffer of weir has (see `native`). A set:
/// `BufferUsage::vertex | BufferUsage::index`. The values are those of VkBufferUsageFlagBits, so an application may
/// cast further ones to this type if it enabled what they need on the device that weir adopted.
enum class BufferUsage : std::uint32_t {
  none = 0,             ///< nothing more
  uniform_texel = 0x4,  ///< read through a VkBufferView
  storage_texel = 0x8,  ///< read and written through a VkBufferView
  index = 0x40,         ///< vkCmdBindIndexBuffer
  vertex = 0x80,        ///< vkCmdBindVertexBuffers
  indirect = 0x100,     ///< parameters of vkCmdDrawIndirect, vkCmdDispatchIndirect and their like
};
/// Return the uses of both sets.
[[nodiscard]] constexpr BufferUsage operator|(BufferUsage a, BufferUsage b) noexcept {
  return static_cast<BufferUsage>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

/// Options of Vulkan's resources. Buffers of weir begin at multiples of 256 bytes of their VkBuffer, and Vulkan lets no
/// driver ask for more of texel, uniform and storage buffers.
///
/// A process that opens an exportable buffer makes a VkBuffer of its own for it, without `usage`. If it needs further
/// uses, it makes another VkBuffer over `native(buffer).memory`. For both processes to name the same memory, Vulkan
/// wants their VkBuffers to need the same memory type and size, and neither to require a dedicated allocation. Where a
/// driver's buffers with `usage` are otherwise, allocations throw unsupported. Where it cannot share buffers with
/// `usage` at all, the factory does.
struct BufferOptions {
  bool exportable = false;  ///< as in ResourceOptions, which convert to these
  BufferUsage usage = BufferUsage::none;  ///< besides the uses that every VkBuffer of weir has
};

/// Make a resource of device-local memory. To be the same on every machine, it is not mapped even where it could be.
/// Frameworks can address it only if it is exportable and CUDA knows the GPU, too. Otherwise an export to DLPack throws
/// unsupported.
[[nodiscard]] WEIR_API ResourcePtr make_device_resource(const Device& device, const BufferOptions& options = {});
/// Make a resource of memory that the host writes and the device reads. The memory is write-combined where there is a
/// choice, so do not read it on the host.
[[nodiscard]] WEIR_API ResourcePtr make_upload_resource(const Device& device, const BufferOptions& options = {});
/// Make a resource of cached memory that the device writes and the host reads. Good for both directions. DLPack label:
/// CPU.
[[nodiscard]] WEIR_API ResourcePtr make_readback_resource(const Device& device, const BufferOptions& options = {});
/// Make a resource of device-local memory that the host can reach (resizable BAR, unified memory). Throws unsupported
/// where the device has none.
[[nodiscard]] WEIR_API ResourcePtr make_mappable_resource(const Device& device, const BufferOptions& options = {});

/// Handles of a buffer, owned by that buffer. All are null for zero bytes.
struct NativeBuffer {
  VkBuffer_T* buffer = nullptr;  ///< covers the whole segment
  std::uint64_t offset = 0;      ///< of the first byte within `buffer`
  std::uint64_t size = 0;        ///< bytes
  VkDeviceMemory_T* memory = nullptr;  ///< what `buffer` is bound to
  std::uint64_t memory_offset = 0;    ///< of the first byte within `memory`
  std::uint64_t allocation_size = 0;  ///< of all of `memory`; 0 for wrapped buffers
  bool dedicated = false;             ///< `memory` was allocated for `buffer` alone; importers must say so too
  std::uint64_t device_address = 0;   ///< of the first byte; 0 without bufferDeviceAddress
};

/// Return the handles of `buffer`. The usage of the VkBuffer is transfer source and destination, storage, uniform and,
/// where the device has it, shader device address, and what BufferOptions add. Run work of your own by `submit`, or
/// call `Buffer::use_on` after it. Memory of CUDA that was made for Vulkan (`cuda::VmmOptions::vulkan`) has handles on
/// the Vulkan device of its GPU: the first call for memory of a segment opens that segment there, and the handles are
/// valid as long as the buffer's memory. Throws closed; invalid_argument for memory that Vulkan does not reach; what
/// Vulkan refuses when the memory is opened.
[[nodiscard]] WEIR_API NativeBuffer native(const Buffer& buffer);
/// The same on `device`, which decides where several devices are one GPU: an adopted device and the listed one. Throws
/// invalid_argument, too, for Vulkan memory of another device. Memory of CUDA that an adopted device has opened must be
/// given back before `release`.
[[nodiscard]] WEIR_API NativeBuffer native(const Buffer& buffer, const Device& device);

/// Handles of a stream, owned by that stream.
struct NativeStream {
  VkDevice_T* device = nullptr;  ///< that the stream puts work on
  VkQueue_T* queue = nullptr;  ///< shared with other streams; submit to it only inside `with_queue`
  std::uint32_t family = 0;  ///< of `queue`
  VkSemaphore_T* semaphore = nullptr;  ///< timeline; signalled by weir only
  std::uint64_t value = 0;             ///< reached when everything put on the stream so far is complete
};

/// Hand everything on `stream` to its queue, and return its handles with the semaphore value to wait for. Blocks while
/// the stream is held back by work of another device or of the host, because a queue must never wait for a signal that
/// is not submitted.
[[nodiscard]] WEIR_API NativeStream native(const Stream& stream);

/// Order everything put on `stream` from now on after `value` of an application's timeline semaphore of the same
/// VkDevice. The signal of `value` must already be submitted. The semaphore must live until the stream has passed this
/// point.
WEIR_API void wait(const Stream& stream, VkSemaphore_T* semaphore, std::uint64_t value);

/// Buffers by reference: `{a, b}`.
using BufferList = std::vector<std::reference_wrapper<const Buffer>>;

/// Run an application's commands on `stream`, on its own queue: after everything that was put on the stream so far, and
/// before everything that is put there later. Return the point behind them, before they have run. `buffers` are all
/// buffers of weir that they touch, on whatever device address or VkBuffer. For these the commands need no barrier at
/// their beginning or end, no semaphore, no ownership transfer and no `use_on`: they see what was written before, on
/// the device and by the host, and what they write is seen by everything later on the stream, and by the host once it
/// has waited for the point. Barriers between the commands themselves remain theirs. Work on other streams is ordered
/// as always, by `Stream::wait`.
///
/// The command buffers are primary ones that are ready to be submitted, of the device and the family of
/// `native(stream)` (of AdoptOptions, on an adopted device). They and what they name must stay as they are until the
/// point is reached.
///
/// This does not block. While the stream is held back, a thread of weir submits the commands when their turn comes. If
/// Vulkan refuses them, this throws, nothing of them runs, and the stream goes on as if the call had not been made, but
/// a refusal on that thread ends the stream. Throws closed, and invalid_argument for buffers of another device.
WEIR_API Event submit(const Stream& stream, const std::vector<VkCommandBuffer_T*>& commands, const BufferList& buffers);

/// A value of an application's timeline semaphore.
struct SemaphorePoint {
  VkSemaphore_T* semaphore = nullptr;  ///< of the stream's VkDevice
  std::uint64_t value = 0;             ///< reached when the semaphore has this value or a larger one
};

/// Order work that the application submits to a queue of its own, of the same family, in the same place on `stream`.
/// `function` gets the stream's handles. It submits work that waits there for `value` of `semaphore`, at the stages of
/// all commands, and that signals `done`. Then everything put on `stream` later comes after `done`, which must not be
/// reached before, and whose semaphore must live until the stream has passed this point.
///
/// Blocks while the stream is held back, as `native(stream)` does, and until `done` if there is no memory to note the
/// point. If `function` throws, it must have submitted nothing; the stream goes on as if the call had not been made.
/// Memory that other processes can open belongs to VK_QUEUE_FAMILY_EXTERNAL between weir's batches: the work must
/// acquire it from there and release it again. For the host to read what it wrote, the work must end with a barrier to
/// the host. `submit` does all of this by itself.
WEIR_API Event submit_elsewhere(const Stream& stream, const SemaphorePoint& done,
                       const std::function<void(const NativeStream&)>& function, const BufferList& buffers);

/// Call `function` with the stream's VkQueue while nobody else uses that queue.
WEIR_API void with_queue(const Stream& stream, const std::function<void(VkQueue_T*)>& function);

/// Make everything that the host wrote into a mapped buffer visible to the device. Costs nothing on coherent memory.
/// Needed only after writes through `host_data()`: weir's own copies do it themselves.
WEIR_API void flush(const Buffer& buffer);
/// Make everything that the device wrote into a mapped buffer visible to the host. Costs nothing on coherent memory.
/// Needed only before reads through `host_data()`: weir's own copies do it themselves.
WEIR_API void invalidate(const Buffer& buffer);

/// A VkBuffer that the application owns. It must be bound to memory, have transfer usage, and belong to the queue
/// family of weir's queues. Several VkBuffers may name the same bytes, including bytes of weir's own buffers
/// (`native`): work on a stream is ordered by the memory, not by the VkBuffer that names it.
struct ExternalBuffer {
  VkBuffer_T* buffer = nullptr;       ///< the handle
  std::uint64_t bytes = 0;             ///< at most the size that `buffer` was made with
  /// What `buffer` is bound to. If this is null, each copy to or from `buffer` waits for all work before it.
  VkDeviceMemory_T* memory = nullptr;
  std::uint64_t memory_offset = 0;     ///< of `buffer` within `memory`
  void* host = nullptr;                ///< where its first byte is mapped, coherently; null when it is not mapped
};

/// Make a Buffer over an application's VkBuffer. `release` runs once, on any thread, when the last owner is gone and
/// all recorded uses are complete. If this throws, `release` did not run.
[[nodiscard]] WEIR_API Buffer wrap(const Device& device, const ExternalBuffer& external, std::function<void()> release,
                                   const Stream& stream);

/// A queue that weir may submit to. If the application uses the queue, too, `lock` and `unlock` are its lock of the
/// queue, which weir takes around every use. They must not throw or call weir, and nobody who has the lock may wait for
/// work of weir. Without them, the queue must be weir's alone. Several adoptions may have the same queue: weir then uses
/// it for one of them at a time.
struct AdoptedQueue {
  VkQueue_T* queue = nullptr;  ///< of the family AdoptOptions::queue_family
  std::function<void()> lock;  ///< called before each use of the queue
  std::function<void()> unlock;  ///< called after it, on the same thread
};

/// The same type as PFN_vkGetInstanceProcAddr.
using GetInstanceProcAddr = void (*(*)(VkInstance_T*, const char*))();

/// An application's device, which must stay valid until `release`.
struct AdoptOptions {
  VkInstance_T* instance = nullptr;  ///< that `physical_device` is of
  VkPhysicalDevice_T* physical_device = nullptr;  ///< that `device` was made on
  VkDevice_T* device = nullptr;  ///< the one to adopt
  GetInstanceProcAddr get_instance_proc_addr = nullptr;  ///< of the loader that `instance` was made with
  std::uint32_t queue_family = 0;      ///< one that supports compute, graphics or transfers
  std::vector<AdoptedQueue> queues;    ///< of that family; at least one, and none twice
  bool timeline_semaphore = false;     ///< the feature is enabled, as it must be
  bool buffer_device_address = false;  ///< the feature is enabled
  bool external_memory_fd = false;     ///< VK_KHR_external_memory_fd is enabled: buffers can be exported
  bool debug_utils = false;            ///< VK_EXT_debug_utils is enabled on the instance: weir names what it makes
};

/// Make a Device over an application's VkDevice. It is not listed in `devices()`. The instance must have been made for
/// Vulkan 1.2 or newer. Throws invalid_argument (also when something that the options say is enabled turns out not to
/// be), unsupported and incompatible.
[[nodiscard]] WEIR_API Device adopt(const AdoptOptions& options);

/// End an adoption: wait for weir's work and for the adopted queues, then destroy what weir made on the device.
/// Afterwards the application may destroy the VkDevice, and every use of the device through weir throws `closed`.
/// Throws invalid_argument, and leaves the adoption as it was, while buffers or streams of the device are alive.
WEIR_API void release(const Device& device);

/// Return whether the Khronos validation layer is active on weir's own instance: WEIR_VULKAN_VALIDATION=1 was set, and
/// the layer was found.
[[nodiscard]] WEIR_API bool validation_active() noexcept;
/// Return the number of errors and warnings that the layer has reported so far on weir's own instance.
[[nodiscard]] WEIR_API std::uint64_t validation_errors() noexcept;

}  // namespace weir::vulkan
