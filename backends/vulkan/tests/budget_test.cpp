// SPDX-License-Identifier: Apache-2.0
// What the driver says of a heap (VK_EXT_memory_budget), which the CPU's driver does not: the application's loader here
// says it instead.
#include <cstring>

#include "app.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/pool.hpp"

namespace weir::vulkan::test {
namespace {

constexpr std::size_t budget = std::size_t{5} << 30;
std::size_t used = 0;
int asked = 0;
GetInstanceProcAddr whole = nullptr;

template <class F>
F real(const char* name, VkInstance instance) {
  return reinterpret_cast<F>(whole(instance, name));
}
VkInstance instance_of_app = VK_NULL_HANDLE;

VKAPI_ATTR VkResult VKAPI_CALL one_extension(VkPhysicalDevice, const char*, std::uint32_t* count,
                                             VkExtensionProperties* properties) {
  *count = 1;
  if (properties) std::strcpy(properties->extensionName, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL with_budget(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2* properties) {
  void* const chain = std::exchange(properties->pNext, nullptr);
  real<PFN_vkGetPhysicalDeviceMemoryProperties2>("vkGetPhysicalDeviceMemoryProperties2", instance_of_app)(device,
                                                                                                          properties);
  properties->pNext = chain;
  if (!chain) return;
  ++asked;
  auto& all = *static_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(chain);
  EXPECT_EQ(all.sType, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  for (std::uint32_t heap = 0; heap < properties->memoryProperties.memoryHeapCount; ++heap) {
    all.heapBudget[heap] = budget + heap;
    all.heapUsage[heap] = used;
  }
}

PFN_vkVoidFunction saying_it(VkInstance instance, const char* name) {
  if (std::strcmp(name, "vkEnumerateDeviceExtensionProperties") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(&one_extension);
  if (std::strcmp(name, "vkGetPhysicalDeviceMemoryProperties2") == 0)
    return reinterpret_cast<PFN_vkVoidFunction>(&with_budget);
  return whole(instance, name);
}

}  // namespace

class Budgets : public OnApp {};

TEST_F(Budgets, AreInTheStatisticsOfEveryResourceAndOnlyThere) {
  give_back();
  auto options = app->options();
  whole = options.get_instance_proc_addr;
  instance_of_app = options.instance;
  options.get_instance_proc_addr = &saying_it;
  const Device telling = adopt(options);
  {
    const auto plain = make_device_resource(telling);
    asked = 0;
    used = std::size_t{1} << 30;
    EXPECT_EQ(plain->stats().device_budget, budget);
    EXPECT_EQ(plain->stats().device_free, std::size_t{4} << 30);
    EXPECT_EQ(asked, 2);
    used = 2 * budget;  // the driver has lowered it
    EXPECT_EQ(plain->stats().device_free, 0U);
    const ResourcePtr pool = make_pool(make_limiting(plain, std::size_t{1} << 30));
    used = 10;
    EXPECT_EQ(pool->stats().device_free, budget - 10);
    EXPECT_EQ(pool->stats().device_budget, budget);
    const Stream stream{telling};
    asked = 0;
    for (int i = 0; i < 10; ++i) {
      Buffer buffer = plain->allocate(1000, stream), other = pool->allocate(1000, stream);
      buffer.fill(std::byte{1}, stream);
      other.copy_from(buffer, stream);
    }
    stream.synchronize();
    (void)pool->trim(0);
    EXPECT_EQ(asked, 0) << "the question belongs to the statistics";
  }
  const auto kept = make_device_resource(telling);
  vulkan::release(telling);
  EXPECT_FALSE(kept->stats().device_free);
}

TEST_F(Budgets, AreEmptyWhereTheDriverDoesNotSay) {
  EXPECT_FALSE(make_resource(host_device())->stats().device_budget);
  EXPECT_FALSE(make_resource(host_device())->stats().device_free);
  const auto stats = make_device_resource(device())->stats();
  EXPECT_EQ(stats.device_free.has_value(), stats.device_budget.has_value());
}

}  // namespace weir::vulkan::test
