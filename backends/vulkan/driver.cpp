// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "validation.hpp"
#include "weir/error.hpp"

namespace weir::vulkan {
namespace {

struct GlobalTable {
#define WEIR_VK_GLOBAL(name) PFN_##name name = nullptr;
#include "symbols.inc"
};

std::atomic<bool> forked{false};
std::atomic<bool> gone{false};
std::atomic<int> inside{0};
std::atomic<pthread_t> ending{};
std::atomic<unsigned> done_before{0};
thread_local int depth = 0;  // nested allowed calls on this thread

constexpr std::chrono::milliseconds patience{100};
constexpr std::chrono::seconds rest_of_process{1};

void end_of_process() noexcept {
  ending.store(pthread_self());
  if (gone.exchange(true)) return;  // the latest handler has waited
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (inside.load() != 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
}

bool is_set(const char* name) noexcept {
  const char* value = secure_getenv(name);
  return value && *value && std::strcmp(value, "0") != 0;
}

PFN_vkGetInstanceProcAddr find_loader(std::string& reason) {
  const char* chosen = secure_getenv("WEIR_VULKAN_LIBRARY");
  const std::string path = chosen && *chosen ? chosen : "libvulkan.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    reason = "no Vulkan loader (" + std::string(why ? why : path) + "): install libvulkan1";
    return nullptr;
  }
  auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (!get) {
    reason = path + " is not a Vulkan loader: it has no vkGetInstanceProcAddr";
    dlclose(library);
  }
  return get;
}

// Ask for names of objects, where they can be had. Returns whether they were asked for; validation has done so already.
bool enable_debug_utils(VkInstanceCreateInfo& info, PFN_vkEnumerateInstanceExtensionProperties list) {
  if (info.enabledExtensionCount != 0) return true;
  constexpr const char* call = "vkEnumerateInstanceExtensionProperties";
  static constexpr std::array names{VK_EXT_DEBUG_UTILS_EXTENSION_NAME};
  std::uint32_t count = 0;
  VkResult result = list ? list(nullptr, &count, nullptr) : VK_SUCCESS;
  std::vector<VkExtensionProperties> found(result < 0 ? 0 : count);
  if (result >= 0 && list) result = list(nullptr, &count, found.data());
  if (result < 0) report_failure(result, call, "names of Vulkan objects");
  const auto wanted = [](const auto& extension) { return std::strcmp(extension.extensionName, names.front()) == 0; };
  if (result < 0 || std::none_of(found.begin(), found.end(), wanted)) return false;
  info.enabledExtensionCount = static_cast<std::uint32_t>(names.size());
  info.ppEnabledExtensionNames = names.data();
  return true;
}

std::string explain_create(VkResult result) {
  std::string text = "vkCreateInstance failed with " + std::string(result_name(result));
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER || result == VK_ERROR_INITIALIZATION_FAILED)
    text += ": no working Vulkan driver; install mesa-vulkan-drivers or the GPU vendor's, and check VK_ICD_FILENAMES";
  return text;
}

}  // namespace

const char* InstanceTable::load(PFN_vkGetInstanceProcAddr get, VkInstance instance, bool debug_utils) noexcept {
#define WEIR_VK_INSTANCE(name) \
  if (!(name = reinterpret_cast<PFN_##name>(get(instance, #name)))) return #name;
#define WEIR_VK_INSTANCE_OPTIONAL(name) \
  if (debug_utils && !(name = reinterpret_cast<PFN_##name>(get(instance, #name)))) return #name;
#include "symbols.inc"
  return nullptr;
}

const char* DeviceTable::load(PFN_vkGetDeviceProcAddr get, VkDevice device) noexcept {
#define WEIR_VK_DEVICE(name) \
  if (!(name = reinterpret_cast<PFN_##name>(get(device, #name)))) return #name;
#define WEIR_VK_DEVICE_OPTIONAL(name) name = reinterpret_cast<PFN_##name>(get(device, #name));
#include "symbols.inc"
  return nullptr;
}

const Knobs& knobs() noexcept {
  static const Knobs value{.validation = is_set("WEIR_VULKAN_VALIDATION"),
                           .force_staging = is_set("WEIR_VULKAN_FORCE_STAGING"),
                           .force_noncoherent = is_set("WEIR_VULKAN_FORCE_NONCOHERENT")};
  return value;
}

std::string version_string(std::uint32_t version) {
  return std::to_string(VK_API_VERSION_MAJOR(version)) + '.' + std::to_string(VK_API_VERSION_MINOR(version)) + '.' +
         std::to_string(VK_API_VERSION_PATCH(version));
}

void watch_process() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      forked.store(true);
      gone.store(true);
      inside.store(0);  // threads that were inside are not in this process
    });
  });
  std::atexit([] { end_of_process(); });
}

void did(Doing what) noexcept {
  const auto bits = static_cast<unsigned>(what);
  if ((done_before.load(std::memory_order_relaxed) & bits) == bits) [[likely]]
    return;
  done_before.fetch_or(bits);
  std::atexit([] { end_of_process(); });
}

DriverCall::DriverCall(Doing what) noexcept : what_(what), allowed_(true) {
  if (depth == 0) {
    inside.fetch_add(1);
    allowed_ = !gone.load();
    if (!allowed_) inside.fetch_sub(1);
  }
  if (allowed_) ++depth;
}

DriverCall::~DriverCall() {
  if (!allowed_) return;
  did(what_);
  if (--depth == 0) inside.fetch_sub(1);
}

NeededCall::NeededCall(Doing what) : DriverCall(what) {
  if (*this) return;
  check_process();
  if (!pthread_equal(ending.load(), pthread_self())) std::this_thread::sleep_for(rest_of_process);
  throw Error(Errc::device_lost, "Vulkan cannot be used any more: the process is ending");
}

bool process_ends() noexcept { return gone.load(); }

void check_process() {
  if (forked.load(std::memory_order_relaxed))
    throw Error(Errc::unsupported,
                "Vulkan was loaded before this process was forked and cannot be used in the child: "
                "spawn a new program instead");
}

const Instance* open_instance(std::string& reason) {
  auto get = find_loader(reason);
  if (!get) return nullptr;
  GlobalTable global;
#define WEIR_VK_GLOBAL(name) global.name = reinterpret_cast<PFN_##name>(get(VK_NULL_HANDLE, #name));
#include "symbols.inc"
  std::uint32_t api = VK_API_VERSION_1_0;
  if (global.vkEnumerateInstanceVersion)
    check(global.vkEnumerateInstanceVersion(&api), "vkEnumerateInstanceVersion", "the Vulkan loader");
  if (api < lowest_api || !global.vkCreateInstance) {
    reason = "the Vulkan loader is of version " + version_string(api) + ", weir needs 1.2: install a newer libvulkan1";
    return nullptr;
  }
  api = std::min(api, std::uint32_t{VK_API_VERSION_1_3});

  Validation validation;
  if (knobs().validation) validation.prepare(global.vkEnumerateInstanceLayerProperties);
  const VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO, nullptr, "weir", 0, "weir", 0, api};
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  validation.extend(info);
  const bool debug_utils = enable_debug_utils(info, global.vkEnumerateInstanceExtensionProperties);
  static Instance* instance = nullptr;  // lives as long as the process, even when there is no device
  instance = new Instance;
  if (VkResult result = global.vkCreateInstance(&info, nullptr, &instance->handle); result != VK_SUCCESS) {
    reason = explain_create(result);
    delete std::exchange(instance, nullptr);
    return nullptr;
  }
  instance->api = api;
  if (const char* missing = instance->fn.load(get, instance->handle, debug_utils)) {
    reason = std::string("the Vulkan loader has no ") + missing + ": install a newer libvulkan1";
    return nullptr;
  }
  validation.listen(get, instance->handle);
  watch_process();
  return instance;
}

}  // namespace weir::vulkan
