// SPDX-License-Identifier: Apache-2.0
// Names for validation messages and debuggers.
#include <map>
#include <mutex>
#include <string>

#include "altered.hpp"
#include "app.hpp"
#include "expect.hpp"
#include "vulkan/device.hpp"
#include "weir/ipc.hpp"

namespace weir::vulkan::test {
namespace {

/// What was named, by handle.
struct Named {
  std::mutex mutex;
  std::map<std::uint64_t, std::pair<VkObjectType, std::string>> names;
} named;

VKAPI_ATTR VkResult VKAPI_CALL take_name(VkDevice device, const VkDebugUtilsObjectNameInfoEXT* info) {
  const std::scoped_lock lock(named.mutex);
  EXPECT_NE(device, VK_NULL_HANDLE);
  named.names[info->objectHandle] = {info->objectType, info->pObjectName};
  return VK_ERROR_OUT_OF_HOST_MEMORY;  // a name that is refused changes nothing
}

template <class Handle>
std::pair<VkObjectType, std::string> name_of(Handle handle) {
  const std::scoped_lock lock(named.mutex);
  return named.names[reinterpret_cast<std::uint64_t>(handle)];
}

using Name = std::pair<VkObjectType, std::string>;
constexpr auto a_buffer = VK_OBJECT_TYPE_BUFFER;
constexpr auto a_memory = VK_OBJECT_TYPE_DEVICE_MEMORY;

}  // namespace

class Names : public OnApp {
 protected:
  [[nodiscard]] AdoptOptions listening(bool debug_utils) const {
    auto options =
        altered(app->options(), "vkSetDebugUtilsObjectNameEXT", reinterpret_cast<PFN_vkVoidFunction>(&take_name));
    options.debug_utils = debug_utils;
    named.names.clear();
    return options;
  }
};

TEST_F(Names, SayWhatTheMemoryIsAndWhoseTheSemaphoreIs) {
  give_back();
  const Device named_device = adopt(listening(true));
  {
    const Stream stream{named_device};
    EXPECT_EQ(name_of(native(stream).semaphore),
              (Name{VK_OBJECT_TYPE_SEMAPHORE, "weir stream " + std::to_string(stream.id())}));
    Buffer large = make_device_resource(named_device)->allocate(std::size_t{2} << 20, stream);
    EXPECT_EQ(name_of(native(large).buffer), (Name{a_buffer, "weir vulkan.device 2 MiB"}));
    EXPECT_EQ(name_of(native(large).memory), (Name{a_memory, "weir vulkan.device 2 MiB"}));
    Buffer small = make_readback_resource(named_device)->allocate(300, stream);
    EXPECT_EQ(name_of(native(small).buffer), (Name{a_buffer, "weir vulkan.readback 512 bytes"}));
    Buffer shared = make_device_resource(named_device, {.exportable = true})->allocate(1, stream);
    EXPECT_EQ(name_of(native(shared).memory), (Name{a_memory, "weir vulkan.device 64 KiB"}));
    Buffer opened = ipc::open(shared.ipc_descriptor(stream), stream);
    EXPECT_EQ(name_of(native(opened).buffer), (Name{a_buffer, "weir vulkan.device 64 KiB, imported"}));
    stream.synchronize();
  }
  vulkan::release(named_device);
}

TEST_F(Names, AreGivenToNothingWithoutTheExtension) {
  give_back();
  const Device silent = adopt(listening(false));
  {
    const Stream stream{silent};
    make_device_resource(silent)->allocate(300, stream).fill(std::byte{1}, stream);
    stream.synchronize();
  }
  vulkan::release(silent);
  EXPECT_TRUE(named.names.empty());
}

TEST_F(Names, AnExtensionThatIsNotThereIsNamed) {
  auto options = altered(app->options(), "vkSetDebugUtilsObjectNameEXT", nullptr);
  options.debug_utils = true;
  EXPECT_ERROR(adopt(options), Errc::invalid_argument,
               "has no vkSetDebugUtilsObjectNameEXT: what was said to be enabled is not");
}

class OwnNames : public OnVulkan {};

TEST_F(OwnNames, AreGivenWhereTheLoaderHasThem) {
  const auto& state = static_cast<const PhysicalDevice&>(device().state());
  EXPECT_NE(state.instance.fn.vkSetDebugUtilsObjectNameEXT, nullptr) << "every loader of Vulkan 1.2 has them";
}

}  // namespace weir::vulkan::test
