// SPDX-License-Identifier: Apache-2.0
#pragma once
// Vulkan: resources by intent, native handles, and life inside an application that brings its own VkDevice. Needs no
// vulkan.h: the handles are forward-declared exactly as there.

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

/// The device "vulkan:`ordinal`": discrete GPUs first, then integrated, virtual, CPU. Throws invalid_argument.
[[nodiscard]] Device device(int ordinal = 0);

/// Device-local memory. Never mapped, also where it could be: the same on every machine. DLPack label: Vulkan.
[[nodiscard]] ResourcePtr make_device_resource(const Device& device, const ResourceOptions& options = {});
/// Memory that the host writes and the device reads; write-combined where there is a choice, so do not read it.
[[nodiscard]] ResourcePtr make_upload_resource(const Device& device, const ResourceOptions& options = {});
/// Memory that the device writes and the host reads: cached. Good for both directions. DLPack label: CPU.
[[nodiscard]] ResourcePtr make_readback_resource(const Device& device, const ResourceOptions& options = {});
/// Device-local memory that the host can reach (resizable BAR, unified memory). Throws unsupported without it.
[[nodiscard]] ResourcePtr make_mappable_resource(const Device& device, const ResourceOptions& options = {});

/// Handles of a buffer, owned by it. All null for zero bytes.
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

/// Throws invalid_argument for memory of other backends, closed. Usage: transfer source and destination, storage,
/// uniform and, where the device has it, shader device address. Say `Buffer::use_on` after work of your own.
[[nodiscard]] NativeBuffer native(const Buffer& buffer);

/// Handles of a stream, owned by it.
struct NativeStream {
  VkDevice_T* device = nullptr;
  VkQueue_T* queue = nullptr;  ///< shared with other streams; submit under `lock(stream)` only
  std::uint32_t family = 0;
  VkSemaphore_T* semaphore = nullptr;  ///< timeline; signalled by weir only
  std::uint64_t value = 0;             ///< reached when everything put on the stream so far is complete
};

/// Hand everything on `stream` to its queue and say what to wait for. Blocks while the stream is held back by work of
/// another device or the host, since a queue must never wait for a signal that is not submitted.
[[nodiscard]] NativeStream native(const Stream& stream);

/// Order what is put on `stream` from now on after `value` of an application's timeline semaphore of the same
/// VkDevice. Its signal must have been submitted; the semaphore must live until the stream has passed this point.
void wait(const Stream& stream, VkSemaphore_T* semaphore, std::uint64_t value);

/// Run `function` while nobody else uses the stream's VkQueue.
void with_queue(const Stream& stream, const std::function<void(VkQueue_T*)>& function);

/// Make what the host wrote into mapped memory visible to the device, what the device wrote to the host. Weir's own
/// copies do it themselves; needed only around `host_data()`, and free on coherent memory. Whole buffer.
void flush(const Buffer& buffer);
void invalidate(const Buffer& buffer);

/// A VkBuffer that the application owns: bound, with transfer usage, owned by the family of weir's queues. Several may
/// name the same bytes, also those of weir's own buffers (`native`): work on a stream is ordered by memory, not by name.
struct ExternalBuffer {
  VkBuffer_T* buffer = nullptr;
  std::uint64_t bytes = 0;             ///< at most the size it was made with
  VkDeviceMemory_T* memory = nullptr;  ///< what it is bound to; null: a copy to or from it waits for all before it
  std::uint64_t memory_offset = 0;     ///< of the buffer within `memory`
  void* host = nullptr;                ///< where its first byte is mapped, coherently; null when it is not
};

/// Buffer over it. `release` runs once, on any thread, when the last owner is gone and all recorded uses are complete.
/// If this throws, `release` did not run.
[[nodiscard]] Buffer wrap(const Device& device, const ExternalBuffer& external, std::function<void()> release,
                          const Stream& stream);

/// A queue that weir may submit to. Without functions only weir uses it; else they are its lock, taken around every
/// submit. They must not throw or call weir. Several adoptions may have the same queue: weir takes turns on it.
struct AdoptedQueue {
  VkQueue_T* queue = nullptr;
  std::function<void()> lock;
  std::function<void()> unlock;
};

/// What PFN_vkGetInstanceProcAddr is.
using GetInstanceProcAddr = void (*(*)(VkInstance_T*, const char*))();

/// An application's device. It must stay valid until `release`.
struct AdoptOptions {
  VkInstance_T* instance = nullptr;
  VkPhysicalDevice_T* physical_device = nullptr;
  VkDevice_T* device = nullptr;
  GetInstanceProcAddr get_instance_proc_addr = nullptr;
  std::uint32_t queue_family = 0;      ///< computes, or does graphics or transfers
  std::vector<AdoptedQueue> queues;    ///< of that family; at least one, none twice
  bool timeline_semaphore = false;     ///< the feature is enabled; required
  bool buffer_device_address = false;  ///< the feature is enabled
  bool external_memory_fd = false;     ///< VK_KHR_external_memory_fd is enabled: buffers can be exported
};

/// A Device over it; not listed in `devices()`. The instance must have been made for Vulkan 1.2 or newer. Throws
/// invalid_argument (also for what is said to be enabled and is seen not to be), unsupported, incompatible.
[[nodiscard]] Device adopt(const AdoptOptions& options);

/// End an adoption: wait for weir's work and the adopted queues, and destroy what weir made on the device. Afterwards
/// the application may destroy it, and everything that names it here throws `closed`. Throws invalid_argument while
/// buffers or streams of it are alive; nothing has changed then.
void release(const Device& device);

/// Whether WEIR_VULKAN_VALIDATION=1 was set and the Khronos layer was found, on weir's own instance.
[[nodiscard]] bool validation_active() noexcept;
/// Errors and warnings that it has reported so far, on weir's own instance.
[[nodiscard]] std::uint64_t validation_errors() noexcept;

}  // namespace weir::vulkan
