// SPDX-License-Identifier: Apache-2.0
// How weir works inside an application that made the VkDevice itself.
#include <algorithm>
#include <atomic>
#include <chrono>

#include "backend.hpp"
#include "copy/staging.hpp"
#include "logical.hpp"
#include "stream/releases.hpp"
#include "weir/error.hpp"
#include "weir/vulkan.hpp"

namespace weir::vulkan {
namespace {

constexpr int first_ordinal = 100;  // listed devices have lower ordinals
constexpr std::chrono::milliseconds glance{10};
constexpr int glances = 100;  // at threads that still hold the last streams, and at views of memory that end late

void require(bool condition, const char* what) {
  if (!condition) throw Error(Errc::invalid_argument, std::string("vulkan::adopt: ") + what);
}

// The pool that is current by default is nobody's. A later call makes a new one.
void forget_default_pool(spi::DeviceState& device) {
  ResourcePtr pool;  // ends without the mutex
  auto& current = device.current;
  const std::scoped_lock lock(current.mutex);
  if (current.resource == current.pool.lock()) pool.swap(current.resource);
}

void validate(const AdoptOptions& options) {
  require(options.instance && options.physical_device && options.device, "a handle is null");
  require(options.get_instance_proc_addr, "get_instance_proc_addr is null");
  require(!options.queues.empty(), "no queue was given");
  for (const auto& queue : options.queues) {
    require(queue.queue, "a queue is null");
    require(!queue.lock == !queue.unlock, "a queue has only one of lock and unlock");
    const auto same = [&queue](const AdoptedQueue& other) { return other.queue == queue.queue; };
    require(std::count_if(options.queues.begin(), options.queues.end(), same) == 1, "a queue was given twice");
  }
  if (!options.timeline_semaphore)
    throw Error(Errc::unsupported, "vulkan::adopt: the device was made without the timelineSemaphore feature");
}

}  // namespace

Device adopt(const AdoptOptions& options) {
  validate(options);
  check_process();
  auto instance = std::make_unique<Instance>();
  instance->handle = options.instance;
  instance->api = lowest_api;
  if (const char* missing = instance->fn.load(options.get_instance_proc_addr, options.instance, false))
    throw Error(Errc::incompatible,
                std::string("vulkan::adopt: the instance has no ") + missing + ": make it for Vulkan 1.2");
  if (const char* missing = instance->fn.load(options.get_instance_proc_addr, options.instance, options.debug_utils))
    throw Error(Errc::invalid_argument,
                std::string("vulkan::adopt: the instance has no ") + missing + ": what was said to be enabled is not");
  if (auto why = PhysicalDevice::unsuitable(*instance, options.physical_device); !why.empty())
    throw Error(Errc::unsupported, "vulkan::adopt: " + why);
  DeviceTable fn;
  if (const char* missing = fn.load(instance->fn.vkGetDeviceProcAddr, options.device))
    throw Error(Errc::incompatible, std::string("vulkan::adopt: the device has no ") + missing);

  watch_process();
  static std::atomic<int> adopted{0};
  const PhysicalDevice::Enabled enabled{options.queue_family, static_cast<std::uint32_t>(options.queues.size()),
                                        options.buffer_device_address, options.external_memory_fd};
  auto state =
      std::make_unique<PhysicalDevice>(*instance, options.physical_device, first_ordinal + adopted++, &enabled);
  if (const char* missing = state->missing_in(fn))
    throw Error(Errc::invalid_argument,
                std::string("vulkan::adopt: the device has no ") + missing + ": what was said to be enabled is not");
  auto logical = std::make_unique<Logical>(*state, options.device, fn, true);
  for (const auto& queue : options.queues)
    logical->add_queue(std::make_unique<Queue>(queue.queue, queue.lock, queue.unlock));
  state->adopt(std::move(logical));
  (void)instance.release();  // devices live as long as the process, closed or not
  return Device(*state.release());
}

void release(const Device& device) {
  PhysicalDevice& state = physical(device, "vulkan::release");
  Logical& logical = state.logical();
  if (!logical.adopted) throw Error(Errc::invalid_argument, "vulkan::release: " + logical.name() + " was not adopted");
  forget_default_pool(state);
  bool quiet = false;
  for (int i = 0; i < glances && !quiet; ++i) {
    detail::forget_staging(state);
    detail::drain_releases(state);
    quiet = logical.wait_until_unused(glance);
  }
  detail::forget_staging(state);
  detail::drain_releases(state);
  const auto check = [&](const Population& left) {
    if (left.segments || left.streams)
      throw Error(Errc::invalid_argument, "vulkan::release: " + std::to_string(left.segments) + " buffers and " +
                                              std::to_string(left.streams) + " streams of " + logical.name() +
                                              " are alive: close them first");
  };
  check(logical.settle(false));
  if (!state.close())
    throw Error(Errc::invalid_argument, "vulkan::release: another thread releases " + logical.name() +
                                            ", or makes a buffer or a stream of it: close that first");
  try {
    check(logical.settle(true));  // of what was made meanwhile
  } catch (...) {
    state.reopen();
    throw;
  }
}

}  // namespace weir::vulkan
