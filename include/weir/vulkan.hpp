// SPDX-License-Identifier: Apache-2.0
#pragma once
// What only Vulkan has: resources by intent, native handles, and life inside an application that brings its own
// VkDevice. Needs no vulkan.h: the handles are forward-declared exactly as in that header.

#include <cstdint>
#include <functional>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

struct VkInstance_T;
struct VkPhysicalDevice_T;
struct VkDevice_T;
struct VkQueue_T;
struct VkBuffer_T;
struct VkDeviceMemory_T;
struct VkSemaphore_T;

static_assert(sizeof(void*) == 8, "Vulkan's non-dispatchable handles are pointers on 64-bit systems only");

namespace weir::vulkan {

/// Return the device "vulkan:`ordinal`". Discrete GPUs come first, then integrated GPUs, virtual GPUs and CPUs. Throws
/// invalid_argument.
[[nodiscard]] Device device(int ordinal = 0);

/// Make a resource of device-local memory. To be the same on every machine, it is not mapped even where it could be.
/// Frameworks cannot address it, so an export to DLPack throws unsupported.
[[nodiscard]] ResourcePtr make_device_resource(const Device& device, const ResourceOptions& options = {});
/// Make a resource of memory that the host writes and the device reads. The memory is write-combined where there is a
/// choice, so do not read it on the host.
[[nodiscard]] ResourcePtr make_upload_resource(const Device& device, const ResourceOptions& options = {});
/// Make a resource of cached memory that the device writes and the host reads. Good for both directions. DLPack label:
/// CPU.
[[nodiscard]] ResourcePtr make_readback_resource(const Device& device, const ResourceOptions& options = {});
/// Make a resource of device-local memory that the host can reach (resizable BAR, unified memory). Throws unsupported
/// where the device has none.
[[nodiscard]] ResourcePtr make_mappable_resource(const Device& device, const ResourceOptions& options = {});

/// Handles of a buffer, owned by that buffer. All are null for zero bytes.
struct NativeBuffer {
  VkBuffer_T* buffer = nullptr;  ///< covers the whole segment
  std::uint64_t offset = 0;      ///< of the first byte within `buffer`
  std::uint64_t size = 0;        ///< bytes
  VkDeviceMemory_T* memory = nullptr;
  std::uint64_t memory_offset = 0;    ///< of the first byte within `memory`
  std::uint64_t allocation_size = 0;  ///< of all of `memory`; 0 for wrapped buffers
  bool dedicated = false;             ///< `memory` was allocated for `buffer` alone; importers must say so too
  std::uint64_t device_address = 0;   ///< of the first byte; 0 without bufferDeviceAddress
};

/// Return the handles of `buffer`. The usage of the VkBuffer is transfer source and destination, storage, uniform and,
/// where the device has it, shader device address. Call `Buffer::use_on` after work of your own. Throws closed, and
/// invalid_argument for memory of another backend.
[[nodiscard]] NativeBuffer native(const Buffer& buffer);

/// Handles of a stream, owned by that stream.
struct NativeStream {
  VkDevice_T* device = nullptr;
  VkQueue_T* queue = nullptr;  ///< shared with other streams; submit to it only inside `with_queue`
  std::uint32_t family = 0;
  VkSemaphore_T* semaphore = nullptr;  ///< timeline; signalled by weir only
  std::uint64_t value = 0;             ///< reached when everything put on the stream so far is complete
};

/// Hand everything on `stream` to its queue, and return its handles with the semaphore value to wait for. Blocks while
/// the stream is held back by work of another device or of the host, because a queue must never wait for a signal that
/// is not submitted.
[[nodiscard]] NativeStream native(const Stream& stream);

/// Order everything put on `stream` from now on after `value` of an application's timeline semaphore of the same
/// VkDevice. The signal of `value` must already be submitted. The semaphore must live until the stream has passed this
/// point.
void wait(const Stream& stream, VkSemaphore_T* semaphore, std::uint64_t value);

/// Call `function` with the stream's VkQueue while nobody else uses that queue.
void with_queue(const Stream& stream, const std::function<void(VkQueue_T*)>& function);

/// Make everything that the host wrote into a mapped buffer visible to the device. Costs nothing on coherent memory.
/// Needed only after writes through `host_data()`: weir's own copies do it themselves.
void flush(const Buffer& buffer);
/// Make everything that the device wrote into a mapped buffer visible to the host. Costs nothing on coherent memory.
/// Needed only before reads through `host_data()`: weir's own copies do it themselves.
void invalidate(const Buffer& buffer);

/// A VkBuffer that the application owns. It must be bound to memory, have transfer usage, and belong to the queue
/// family of weir's queues. Several VkBuffers may name the same bytes, including bytes of weir's own buffers
/// (`native`): work on a stream is ordered by the memory, not by the VkBuffer that names it.
struct ExternalBuffer {
  VkBuffer_T* buffer = nullptr;
  std::uint64_t bytes = 0;             ///< at most the size that `buffer` was made with
  /// What `buffer` is bound to. If this is null, each copy to or from `buffer` waits for all work before it.
  VkDeviceMemory_T* memory = nullptr;
  std::uint64_t memory_offset = 0;     ///< of `buffer` within `memory`
  void* host = nullptr;                ///< where its first byte is mapped, coherently; null when it is not mapped
};

/// Make a Buffer over an application's VkBuffer. `release` runs once, on any thread, when the last owner is gone and
/// all recorded uses are complete. If this throws, `release` did not run.
[[nodiscard]] Buffer wrap(const Device& device, const ExternalBuffer& external, std::function<void()> release,
                          const Stream& stream);

/// A queue that weir may submit to. If the application uses the queue, too, `lock` and `unlock` are its lock of the
/// queue, which weir takes around every use. They must not throw or call weir. Without them, the queue must be weir's
/// alone. Several adoptions may have the same queue: weir then uses it for one of them at a time.
struct AdoptedQueue {
  VkQueue_T* queue = nullptr;
  std::function<void()> lock;
  std::function<void()> unlock;
};

/// The same type as PFN_vkGetInstanceProcAddr.
using GetInstanceProcAddr = void (*(*)(VkInstance_T*, const char*))();

/// An application's device, which must stay valid until `release`.
struct AdoptOptions {
  VkInstance_T* instance = nullptr;
  VkPhysicalDevice_T* physical_device = nullptr;
  VkDevice_T* device = nullptr;
  GetInstanceProcAddr get_instance_proc_addr = nullptr;
  std::uint32_t queue_family = 0;      ///< one that supports compute, graphics or transfers
  std::vector<AdoptedQueue> queues;    ///< of that family; at least one, and none twice
  bool timeline_semaphore = false;     ///< the feature is enabled, as it must be
  bool buffer_device_address = false;  ///< the feature is enabled
  bool external_memory_fd = false;     ///< VK_KHR_external_memory_fd is enabled: buffers can be exported
};

/// Make a Device over an application's VkDevice. It is not listed in `devices()`. The instance must have been made for
/// Vulkan 1.2 or newer. Throws invalid_argument (also when something that the options say is enabled turns out not to
/// be), unsupported and incompatible.
[[nodiscard]] Device adopt(const AdoptOptions& options);

/// End an adoption: wait for weir's work and for the adopted queues, then destroy what weir made on the device.
/// Afterwards the application may destroy the VkDevice, and every use of the device through weir throws `closed`.
/// Throws invalid_argument, and leaves the adoption as it was, while buffers or streams of the device are alive.
void release(const Device& device);

/// Return whether the Khronos validation layer is active on weir's own instance: WEIR_VULKAN_VALIDATION=1 was set, and
/// the layer was found.
[[nodiscard]] bool validation_active() noexcept;
/// Return the number of errors and warnings that the layer has reported so far on weir's own instance.
[[nodiscard]] std::uint64_t validation_errors() noexcept;

}  // namespace weir::vulkan
