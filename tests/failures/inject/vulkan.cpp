// SPDX-License-Identifier: Apache-2.0
#include "vulkan.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <stdexcept>

#include "loop.hpp"
#include "system_calls.hpp"
#include "vulkan/device.hpp"
#include "vulkan/logical.hpp"

namespace weir::test {
namespace {

template <class F>
F find(const char* name) {
  static void* const library = dlopen(WEIR_VULKAN_SHIM, RTLD_NOW | RTLD_LOCAL);  // the same that weir has
  auto* symbol = library ? dlsym(library, name) : nullptr;
  if (!symbol) throw std::runtime_error(std::string("no ") + name + " in " WEIR_VULKAN_SHIM);
  return reinterpret_cast<F>(symbol);
}

vulkan::Logical& logical(const Device& device) {
  return static_cast<vulkan::PhysicalDevice&>(device.state()).logical();
}

}  // namespace

// Behind it the judge, if there is one, with a device that does not dawdle: there are thousands of runs.
const bool shim_chosen =
    setenv("WEIR_VULKAN_LIBRARY", WEIR_VULKAN_SHIM, 1) == 0 && setenv("JUDGED_VULKAN_EAGER", "1", 0) == 0;

FailingVulkan::FailingVulkan(const Device& device)
    : device_(device),
      arm_(find<vulkan_shim::Arm>("failing_vulkan_arm")),
      disarm_(find<vulkan_shim::Disarm>("failing_vulkan_disarm")),
      alive_(find<vulkan_shim::Alive>("failing_vulkan_alive")),
      around_(find<vulkan_shim::Around>("failing_vulkan_around")) {}

FailingVulkan::~FailingVulkan() {
  disarm();
  around_(nullptr, nullptr);
}

void FailingVulkan::around(void (*enter)(), void (*leave)()) { around_(enter, leave); }
void FailingVulkan::arm(std::size_t nth, std::size_t code) { arm_(nth, code); }

std::optional<Injected> FailingVulkan::disarm() {
  vulkan_shim::Hit hit{};
  disarm_(&hit);
  if (!hit.call) return std::nullopt;
  return Injected{hit.call, hit.code, hit.codes};
}

// Streams end on weir's threads, at the latest when those do. What a thread gives back may need another one.
void FailingVulkan::settle() {
  for (int round = 0; round < 2; ++round) {
    settle_core(device_);
    EXPECT_TRUE(threads_ended());
  }
  (void)logical(device_).settle(true);  // no stream is made meanwhile
}

std::map<std::string, long> FailingVulkan::alive() {
  std::map<std::string, long> objects;
  for (const auto& object : vulkan_shim::objects) objects[std::string("of ") + object.maker] = alive_(object.maker);
  return objects;
}

const char* FailingVulkan::harmless(const Injected& call) {
  const bool exhausted = call.code != "VK_ERROR_DEVICE_LOST" && call.code != "VK_ERROR_INVALID_EXTERNAL_HANDLE";
  for (const char* name : {"vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", "vkMapMemory"}) {
    if (exhausted && call.call == name) return "asked again once other memory came back, or for a spare only";
  }
  if (call.call == "vkGetSemaphoreCounterValue") return "what is not known to be over is kept, and asked again later";
  if (exhausted && call.call == "vkWaitSemaphores") return "the thread that waits for others asks again";
  if (call.call == "vkQueueWaitIdle") return "asked only when a device is given back";
  return nullptr;
}

}  // namespace weir::test
