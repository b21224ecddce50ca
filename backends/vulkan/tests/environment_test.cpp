// SPDX-License-Identifier: Apache-2.0
// What is read from the environment, each in a process of its own: the knobs, the loader, validation.
#include <atomic>
#include <fstream>
#include <future>

#include "alone.hpp"
#include "altered.hpp"
#include "app.hpp"
#include "expect.hpp"
#include "judged_vulkan.hpp"
#include "sink.hpp"
#include "stream/release_queue.hpp"
#include "vulkan/device.hpp"
#include "weir/host_mirror.hpp"
#include "weir/ipc.hpp"

namespace weir::vulkan::test {

using weir::test::passes_alone;

class Environment : public OnVulkan {
 protected:
  /// GPUs pass through the judge as they are.
  [[nodiscard]] bool is_judged() const {
    const auto& state = static_cast<const PhysicalDevice&>(device().state());
    return !weir::test::judged_vulkan().empty() && state.device_type == VK_PHYSICAL_DEVICE_TYPE_CPU;
  }
};
class DISABLED_Alone : public testing::Test {  // run by the tests below, with an environment
 protected:
  static std::string reason() {
    for (const auto& info : backends())
      if (info.name == "vulkan") return info.unavailable_because;
    return "not built";
  }
};
class DISABLED_AloneOnApp : public OnApp {};

// --- loader ---------------------------------------------------------------------------------------------------------

TEST_F(DISABLED_Alone, NoLoader) {
  EXPECT_NE(reason().find("no Vulkan loader"), std::string::npos) << reason();
  EXPECT_NE(reason().find("/nonexistent"), std::string::npos) << reason();
  EXPECT_ERROR(vulkan::device(0), Errc::invalid_argument, "no Vulkan loader");
  EXPECT_EQ(best_device().backend() == "vulkan", false);
}
TEST(Loader, MissingIsOneLine) {
  EXPECT_TRUE(passes_alone("*Alone.NoLoader", {"WEIR_VULKAN_LIBRARY=/nonexistent/libvulkan.so", "WEIR_REQUIRE="}));
}

TEST_F(DISABLED_Alone, NotALoader) {
  EXPECT_NE(reason().find("is not a Vulkan loader"), std::string::npos) << reason();
}
TEST(Loader, SomethingElseIsOneLine) {
  EXPECT_TRUE(passes_alone("*Alone.NotALoader", {"WEIR_VULKAN_LIBRARY=libm.so.6", "WEIR_REQUIRE="}));
}

TEST_F(DISABLED_Alone, NoDriver) {
  EXPECT_NE(reason().find("no working Vulkan driver"), std::string::npos) << reason();
  EXPECT_EQ(reason().find('\n'), std::string::npos);
}
TEST_F(Environment, NoDriverIsOneLine) {
  EXPECT_TRUE(passes_alone("*Alone.NoDriver", {"VK_ICD_FILENAMES=/nonexistent/icd.json",
                                               "VK_DRIVER_FILES=/nonexistent/icd.json", "WEIR_REQUIRE="}));
}
TEST_F(Environment, ABrokenDriverIsOneLine) {
  const std::string path = testing::TempDir() + "weir_broken_icd.json";
  std::ofstream(path)
      << R"({"file_format_version": "1.0.0", "ICD": {"library_path": "libm.so.6", "api_version": "1.3.0"}})";
  EXPECT_TRUE(
      passes_alone("*Alone.NoDriver", {"VK_ICD_FILENAMES=" + path, "VK_DRIVER_FILES=" + path, "WEIR_REQUIRE="}));
}

// --- knobs ----------------------------------------------------------------------------------------------------------

TEST_F(DISABLED_AloneOnApp, Noncoherent) {
  const Stream stream{device()};
  Buffer upload = make_upload_resource(device())->allocate(5000, stream);
  Buffer local = make_device_resource(device())->allocate(5000, stream);
  std::vector<std::byte> bytes(5000, std::byte{42});
  upload.copy_from(std::span<const std::byte>(bytes), stream);
  local.copy_from(upload, stream);
  local.fill(std::byte{7}, 1, 2, stream);  // scratch memory
  stream.synchronize();
  EXPECT_GE(calls()["vkFlushMappedMemoryRanges"], 2);
  const int before = calls()["vkInvalidateMappedMemoryRanges"];
  std::vector<std::byte> back(5000);
  local.copy_to(std::span(back), stream);
  stream.synchronize();
  EXPECT_GT(calls()["vkInvalidateMappedMemoryRanges"], before);
  bytes[1] = bytes[2] = std::byte{7};
  EXPECT_EQ(back, bytes);
  const int flushed = calls()["vkFlushMappedMemoryRanges"];
  flush(upload.slice(301, 7));
  EXPECT_EQ(calls()["vkFlushMappedMemoryRanges"], flushed + 1);
}
TEST_F(Environment, ForcedNoncoherentMemoryIsFlushed) {
  EXPECT_TRUE(passes_alone("*AloneOnApp.Noncoherent", {"WEIR_VULKAN_FORCE_NONCOHERENT=1"}));
}

/// Stands in front of the driver's function. The first call waits until it may go on.
struct LateInvalidation {
  static inline std::promise<void> begun, goes_on;
  static inline std::atomic<bool> comes_first{true};
  static VKAPI_ATTR VkResult VKAPI_CALL call(VkDevice device, std::uint32_t count, const VkMappedMemoryRange* ranges) {
    if (comes_first.exchange(false)) {
      begun.set_value();
      goes_on.get_future().wait();
    }
    const auto real = Altered::whole_of_device(device, Altered::name);
    return reinterpret_cast<PFN_vkInvalidateMappedMemoryRanges>(real)(device, count, ranges);
  }
};

TEST_F(DISABLED_AloneOnApp, MirrorsInvalidateLate) {
  give_back();
  const Device adopted = adopt(altered(app->options(), "vkInvalidateMappedMemoryRanges",
                                       reinterpret_cast<PFN_vkVoidFunction>(&LateInvalidation::call)));
  {
    const Stream first{adopted}, second{adopted};
    Buffer local = make_device_resource(adopted)->allocate(4096, first);
    local.fill(std::byte{1}, first);
    second.wait(first.record());
    const ResourcePtr readback = make_readback_resource(adopted);
    HostMirror mirror(local.share(), readback->allocate(4096, first));
    calls().clear();
    mirror.sync_to_host(second);
    LateInvalidation::begun.get_future().wait();
    mirror.close();
    (void)weir::detail::settle_releases(adopted.state());
    EXPECT_EQ(calls()["vkFreeMemory"], 0) << "what is invalidated is gone";
    LateInvalidation::goes_on.set_value();
    readback->trim(0);
    EXPECT_EQ(calls()["vkFreeMemory"], 1);
  }
  vulkan::release(adopted);
}
TEST_F(Environment, AMirrorsMemoryStaysUntilItIsInvalidated) {
  EXPECT_TRUE(passes_alone("*AloneOnApp.MirrorsInvalidateLate", {"WEIR_VULKAN_FORCE_NONCOHERENT=1"}));
}

/// Commands that copying `bytes` from and to the host takes, on an idle stream.
std::pair<int, int> copies_of(const Device& device, MemoryKind kind, std::size_t bytes) {
  const Stream stream{device};
  Buffer buffer = make_resource(device, kind)->allocate(bytes, stream);
  std::vector<std::byte> there(bytes, std::byte{42}), back(bytes);
  calls().clear();
  buffer.copy_from(std::span<const std::byte>(there), stream);
  stream.synchronize();
  const int in = calls()["vkCmdCopyBuffer"];
  buffer.copy_to(std::span(back), stream);
  stream.synchronize();
  EXPECT_EQ(back, there);
  return {in, calls()["vkCmdCopyBuffer"] - in};
}

constexpr std::size_t two_pieces = std::size_t{9} << 20;
constexpr std::pair at_once{0, 0}, staged{2, 2};

/// Runs once more with WEIR_VULKAN_FORCE_STAGING=1, in a suite of its own.
class Staging : public OnApp {
 protected:
  const bool forced = std::getenv("WEIR_VULKAN_FORCE_STAGING") != nullptr;
  [[nodiscard]] bool is_mapped(MemoryKind kind) const {
    return forced ? kind == MemoryKind::readback : kind != MemoryKind::device;
  }
};

TEST_F(Staging, IsTakenWhereTheHostReachesNothingAndNowhereElse) {
  const auto kinds = device().kinds();
  EXPECT_GE(kinds.size(), 3U);
  for (const KindInfo& info : kinds) {
    const bool mapped = is_mapped(info.kind);
    EXPECT_EQ(info.host_accessible, mapped) << to_string(info.kind);
    EXPECT_EQ(copies_of(device(), info.kind, two_pieces), mapped ? at_once : staged) << to_string(info.kind);
    const Stream stream{device()};
    const Buffer buffer = make_resource(device(), info.kind)->allocate(100, stream);
    EXPECT_EQ(buffer.host_data() != nullptr, mapped) << to_string(info.kind);
    EXPECT_EQ(buffer.is_host_accessible(), mapped) << to_string(info.kind);
  }
}

TEST_F(Staging, LeavesScratchMemoryMapped) {
  const Stream stream{device()};
  Buffer unaligned = make_upload_resource(device())->allocate(100, stream);
  unaligned.fill(std::byte{7}, 1, 2, stream);
  std::vector<std::byte> back(100);
  unaligned.copy_to(std::span(back), stream);
  stream.synchronize();
  EXPECT_EQ(back[1], std::byte{7});
  EXPECT_EQ(back[2], std::byte{7});
}

TEST_F(Environment, ForcedStagingMapsNothingElse) {
  EXPECT_TRUE(passes_alone("Staging.*", {"WEIR_VULKAN_FORCE_STAGING=1"}));
}

// --- memory types ---------------------------------------------------------------------------------------------------

TEST_F(DISABLED_Alone, DiscreteTypes) {
  const Device device = vulkan::device(0);
  const auto& state = static_cast<const PhysicalDevice&>(device.state());
  constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags mapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const auto chosen = [&](MemoryKind kind, std::uint32_t among) {
    return state.type(state.memory_type(kind, among).value()).propertyFlags;
  };
  EXPECT_EQ(chosen(MemoryKind::device, ~0u), local);
  EXPECT_EQ(chosen(MemoryKind::upload, ~0u), mapped);
  EXPECT_EQ(chosen(MemoryKind::readback, ~0u), mapped | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
  EXPECT_EQ(chosen(MemoryKind::mappable, ~0u), local | mapped);
  const auto only_local = 1u << *state.memory_type(MemoryKind::device, ~0u);
  for (auto kind : {MemoryKind::upload, MemoryKind::readback, MemoryKind::mappable})
    EXPECT_FALSE(state.memory_type(kind, only_local)) << to_string(kind);
}
TEST_F(Environment, EachKindHasItsTypeOfADiscreteDevice) {
  if (!is_judged()) GTEST_SKIP() << "only the judge has the types of a discrete GPU";
  EXPECT_TRUE(passes_alone("*Alone.DiscreteTypes", {"JUDGED_VULKAN_DISCRETE=1"}));
}

// --- limits ---------------------------------------------------------------------------------------------------------

TEST_F(DISABLED_Alone, FewAllocations) {
  constexpr std::size_t limit = 7;
  const Device device = vulkan::device(0);
  const Stream stream{device};
  const auto resource = make_device_resource(device, {.exportable = true});
  std::vector<Buffer> buffers;
  const auto exhaust = [&] {
    while (auto buffer = resource->try_allocate(100, stream)) buffers.push_back(std::move(*buffer));
    return buffers.size();
  };
  ASSERT_EQ(exhaust(), limit);
  EXPECT_OUT_OF_MEMORY(resource->allocate(100, stream), "VK_ERROR_TOO_MANY_OBJECTS");
  buffers.resize(1);
  {
    const Buffer opened = ipc::open(buffers[0].ipc_descriptor(stream), stream);  // needs spare memory besides
    EXPECT_EQ(exhaust(), limit - 1);
  }
  EXPECT_EQ(exhaust(), limit);
  buffers.resize(limit - 1);
  const Buffer opened = ipc::open(buffers[0].ipc_descriptor(stream), stream);
  EXPECT_THROW((void)ipc::open(buffers[0].ipc_descriptor(stream), stream), Error);
}
TEST_F(Environment, TheDriversNumberOfAllocationsIsReachedAndNotPassed) {
  if (!is_judged()) GTEST_SKIP() << "only the judge lowers the limit";
  EXPECT_TRUE(passes_alone("*Alone.FewAllocations", {"JUDGED_VULKAN_ALLOCATIONS=7"}));
}

TEST_F(DISABLED_AloneOnApp, RefusedAllocations) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  for (int i = 0; i < 20; ++i) {
    calls().fail("vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT_FALSE(resource->try_allocate(100, stream));
    calls().fail("vkBindBufferMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY);
    EXPECT_FALSE(resource->try_allocate(100, stream));
  }
  std::vector<Buffer> buffers;
  for (int i = 0; i < 7; ++i) buffers.push_back(resource->allocate(100, stream));
  EXPECT_FALSE(resource->try_allocate(100, stream));
}
TEST_F(Environment, RefusedAllocationsDoNotCount) {
  if (!is_judged()) GTEST_SKIP() << "only the judge lowers the limit";
  EXPECT_TRUE(passes_alone("*AloneOnApp.RefusedAllocations", {"JUDGED_VULKAN_ALLOCATIONS=7"}));
}

// --- validation -----------------------------------------------------------------------------------------------------

TEST_F(DISABLED_Alone, NoLayer) {
  const auto reports = weir::test::take_reports();  // of the beginning of the program
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].where, "WEIR_VULKAN_VALIDATION");
  EXPECT_NE(reports[0].message.find("not installed"), std::string::npos) << reports[0].message;
  EXPECT_FALSE(validation_active());
  EXPECT_EQ(vulkan::device(0).ordinal(), 0);
}
TEST_F(Environment, AMissingLayerIsReportedAndTheRestWorks) {
  EXPECT_TRUE(passes_alone("*Alone.NoLayer", {"WEIR_VULKAN_VALIDATION=1", "VK_LAYER_PATH=/nonexistent"}));
}

TEST_F(Environment, ValidationIsSilentSoFar) {
  if (!validation_active()) GTEST_SKIP() << "validation is off, or its layer is not installed";
  EXPECT_EQ(validation_errors(), 0u);
}

}  // namespace weir::vulkan::test
