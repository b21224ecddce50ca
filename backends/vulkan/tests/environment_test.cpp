// SPDX-License-Identifier: Apache-2.0
// What is read from the environment, each in a process of its own: the knobs, the loader, validation.
#include <fstream>

#include "alone.hpp"
#include "app.hpp"
#include "expect.hpp"
#include "sink.hpp"

namespace weir::vulkan::test {

using weir::test::passes_alone;

class Environment : public OnVulkan {};
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

TEST_F(DISABLED_AloneOnApp, Staging) {
  EXPECT_EQ(device().find(MemoryKind::mappable), nullptr);
  EXPECT_ERROR(make_mappable_resource(device()), Errc::unsupported, "mappable");
  const Stream stream{device()};
  Buffer local = make_device_resource(device())->allocate(100, stream);
  std::vector<std::byte> bytes(100, std::byte{42}), back(100);
  local.copy_from(std::span<const std::byte>(bytes), stream);
  local.copy_to(std::span(back), stream);
  stream.synchronize();
  EXPECT_EQ(back, bytes);
}
TEST_F(Environment, ForcedStagingHidesMappableMemory) {
  EXPECT_TRUE(passes_alone("*AloneOnApp.Staging", {"WEIR_VULKAN_FORCE_STAGING=1"}));
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
