// SPDX-License-Identifier: Apache-2.0
#include "app.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <tuple>
#include <utility>

#include "making.hpp"
#include "vulkan/tests/interpose.hpp"

namespace weir::vulkan::test {
namespace {

std::atomic<int> validation_messages{0};
std::mutex last_message_mutex;
std::string last_validation_message;
PFN_vkGetInstanceProcAddr loader = nullptr;
PFN_vkGetDeviceProcAddr next_device_proc = nullptr;

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void*) {
  ++validation_messages;
  const std::scoped_lock lock(last_message_mutex);
  last_validation_message = data->pMessage;
  std::fprintf(stderr, "application's validation: %s\n", data->pMessage);
  return VK_FALSE;
}

/// Counts calls of the driver, and fails them on demand.
struct Counted {
  template <class R, class... A>
  static R call(const char* name, R(VKAPI_PTR* next)(A...), A... args) {
    const auto planned = calls().begin(name);
    if constexpr (std::is_same_v<std::tuple<A...>, std::tuple<VkQueue, std::uint32_t, const VkSubmitInfo*, VkFence>>) {
      if (!planned) calls().submits(*std::get<2>(std::tuple(args...)));
    }
    if constexpr (std::is_same_v<R, VkResult>) {
      if (planned) return *planned;
      const VkResult result = next(args...);
      if (result == VK_SUCCESS) calls().took_effect(name);
      return result;
    } else {
      if constexpr (sizeof...(A) == 3) {  // destroy and free take null
        if (!std::get<1>(std::tuple(args...))) return next(args...);
      }
      calls().took_effect(name);
      return next(args...);
    }
  }
};

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char* name) {
  return interpose::Front<Counted>::of(name, next_device_proc(device, name));
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance instance, const char* name) {
  const auto next = loader(instance, name);
  if (std::strcmp(name, "vkGetDeviceProcAddr") != 0) return next;
  next_device_proc = reinterpret_cast<PFN_vkGetDeviceProcAddr>(next);
  return reinterpret_cast<PFN_vkVoidFunction>(&device_proc);
}

}  // namespace

int Calls::operator[](const std::string& name) {
  const std::scoped_lock lock(mutex_);
  return count_[name];
}

void Calls::clear() {
  const std::scoped_lock lock(mutex_);
  count_.clear();
}

int Calls::effective(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  return effective_[name];
}

void Calls::fail(const std::string& name, VkResult result, int nth) {
  const std::scoped_lock lock(mutex_);
  planned_[name] = {nth, result};
}

void Calls::fail_nothing() {
  const std::scoped_lock lock(mutex_);
  planned_.clear();
}

void Calls::reset() {
  const std::scoped_lock lock(mutex_);
  count_.clear();
  effective_.clear();
  planned_.clear();
}

std::optional<VkResult> Calls::begin(const char* name) {
  const std::scoped_lock lock(mutex_);
  ++count_[name];
  const auto planned = planned_.find(name);
  if (planned == planned_.end() || --planned->second.first > 0) return std::nullopt;
  const VkResult result = planned->second.second;
  planned_.erase(planned);
  return result;
}

void Calls::took_effect(const char* name) {
  const std::scoped_lock lock(mutex_);
  ++effective_[name];
}

Calls& calls() {
  static Calls all;
  return all;
}

std::string App::last_message() {
  const std::scoped_lock lock(last_message_mutex);
  return last_validation_message;
}

int App::take_messages() { return validation_messages.exchange(0); }

template <class F>
F App::get(const char* name) const {
  return reinterpret_cast<F>(loader(instance, name));
}
#define GET(name) get<PFN_##name>(#name)

App* App::create(std::string& reason) {
  loader = interpose::next_loader("WEIR_VULKAN_LIBRARY");
  if (!loader) {
    reason = "no Vulkan loader";
    return nullptr;
  }
  std::unique_ptr<App> app(new App);
  if (!app->make_instance(reason) || !app->make_device(reason)) return nullptr;
  return app.release();
}

bool App::make_instance(std::string& reason) {
  const char* layer = "VK_LAYER_KHRONOS_validation";
  std::uint32_t count = 0;
  GET(vkEnumerateInstanceLayerProperties)(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  GET(vkEnumerateInstanceLayerProperties)(&count, layers.data());
  for (const auto& found : layers) validated_ = validated_ || std::strcmp(found.layerName, layer) == 0;

  VkDebugUtilsMessengerCreateInfoEXT messenger{};
  messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messenger.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messenger.pfnUserCallback = on_message;
  const auto synchronization = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT features{};
  features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
  features.enabledValidationFeatureCount = 1;
  features.pEnabledValidationFeatures = &synchronization;
  const std::array extensions{VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
  VkInstanceCreateInfo info{};
  if (validated_) {
    info.pNext = &features;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &layer;
    info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
  }
  instance = vulkan::test::make_instance(loader, info);
  if (!instance) {
    reason = "vkCreateInstance failed";
    return false;
  }
  if (validated_) GET(vkCreateDebugUtilsMessengerEXT)(instance, &messenger, nullptr, &messenger_);
  return true;
}

bool App::make_device(std::string& reason) {
  physical = first_device(loader, instance);
  if (!physical) {
    reason = "no Vulkan device";
    return false;
  }
  device = vulkan::test::make_device(loader, instance, physical, 1);
  if (!device) {
    reason = "vkCreateDevice failed";
    return false;
  }
  GET(vkGetDeviceQueue)(device, 0, 0, &queue);
  return true;
}

App::~App() {
  if (device) GET(vkDestroyDevice)(device, nullptr);
  if (messenger_) GET(vkDestroyDebugUtilsMessengerEXT)(instance, messenger_, nullptr);
  if (instance) GET(vkDestroyInstance)(instance, nullptr);
}

AdoptOptions App::options() const {
  AdoptOptions options;
  options.instance = instance;
  options.physical_device = physical;
  options.device = device;
  options.get_instance_proc_addr = instance_proc;
  auto* self = const_cast<App*>(this);
  options.queues = {{queue, [self] { ++self->locks; }, [self] { ++self->unlocks; }}};
  options.timeline_semaphore = true;
  options.external_memory_fd = true;
  options.debug_utils = validated_;
  return options;
}

VkBuffer App::make_unbound(std::size_t bytes) {
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  GET(vkCreateBuffer)(device, &info, nullptr, &buffer);
  return buffer;
}

VkBuffer App::make_buffer_in(VkDeviceMemory memory, std::size_t offset, std::size_t bytes) {
  VkBuffer buffer = make_unbound(bytes);
  VkMemoryRequirements needs;
  GET(vkGetBufferMemoryRequirements)(device, buffer, &needs);  // validation wants it asked
  GET(vkBindBufferMemory)(device, buffer, memory, offset);
  return buffer;
}

VkBuffer App::make_buffer(std::size_t bytes, VkDeviceMemory& memory) {
  VkBuffer buffer = make_unbound(bytes);
  VkMemoryRequirements needs;
  GET(vkGetBufferMemoryRequirements)(device, buffer, &needs);
  VkMemoryAllocateInfo allocation{};
  allocation.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocation.allocationSize = needs.size;
  while (!(needs.memoryTypeBits >> allocation.memoryTypeIndex & 1)) ++allocation.memoryTypeIndex;
  GET(vkAllocateMemory)(device, &allocation, nullptr, &memory);
  GET(vkBindBufferMemory)(device, buffer, memory, 0);
  return buffer;
}

void App::destroy_buffer(VkBuffer buffer, VkDeviceMemory memory) {
  GET(vkDestroyBuffer)(device, buffer, nullptr);
  GET(vkFreeMemory)(device, memory, nullptr);
}

VkSemaphore App::make_timeline() {
  return test::make_timeline(device, GET(vkCreateSemaphore));
}

void App::wait_idle() { GET(vkDeviceWaitIdle)(device); }

void App::destroy(VkSemaphore semaphore) { GET(vkDestroySemaphore)(device, semaphore, nullptr); }

std::uint64_t App::value(VkSemaphore semaphore) const {
  std::uint64_t reached = 0;
  GET(vkGetSemaphoreCounterValue)(device, semaphore, &reached);
  return reached;
}

void App::submit(VkSemaphore wait, std::uint64_t wait_value, VkSemaphore signal, std::uint64_t signal_value,
                 VkCommandBuffer commands) {
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.waitSemaphoreValueCount = values.signalSemaphoreValueCount = 1;
  values.pWaitSemaphoreValues = &wait_value;
  values.pSignalSemaphoreValues = &signal_value;
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &values;
  info.waitSemaphoreCount = info.signalSemaphoreCount = 1;
  info.pWaitSemaphores = &wait;
  info.pWaitDstStageMask = &stage;
  info.pSignalSemaphores = &signal;
  info.commandBufferCount = commands ? 1 : 0;
  info.pCommandBuffers = &commands;
  ASSERT_EQ(GET(vkQueueSubmit)(queue, 1, &info, VK_NULL_HANDLE), VK_SUCCESS);
}

}  // namespace weir::vulkan::test
