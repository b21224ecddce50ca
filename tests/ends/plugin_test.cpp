// SPDX-License-Identifier: Apache-2.0
// Plug-ins that are unloaded after they used the library.
#include "memory.hpp"
#include "run.hpp"

namespace weir::test {
namespace {

class Plugin : public testing::TestWithParam<Device> {
 protected:
  static testing::AssertionResult works(const char* program, const char* name) {
    return ends_well(program, {name, GetParam().id()});
  }
};

std::vector<Device> first_devices() {
  auto all = devices();
  std::erase_if(all, [](const Device& device) { return device.ordinal() != 0; });
  return all;
}

class PluginWithTheLibraryInside : public Plugin {
 protected:
  void SetUp() override {
    if (const auto why = no_thread_locals_because(); !why.empty()) GTEST_SKIP() << why;
  }
};

INSTANTIATE_TEST_SUITE_P(Every, Plugin, testing::ValuesIn(first_devices()), DeviceName());
INSTANTIATE_TEST_SUITE_P(Every, PluginWithTheLibraryInside, testing::ValuesIn(first_devices()), DeviceName());

TEST_P(PluginWithTheLibraryInside, IsUsedAgain) { EXPECT_TRUE(works("plugin_inside", "inside")); }
TEST_P(PluginWithTheLibraryInside, StaysForItsWork) {
  EXPECT_TRUE(works("plugin_inside", "inside_with_work_left"));
}
TEST_P(Plugin, WithTheLibraryInTheExecutableGoes) { EXPECT_TRUE(works("plugin_outside", "outside")); }

TEST(Plugins, WithoutADeviceStayForTheirChannels) {
  if (const auto why = no_thread_locals_because(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_TRUE(ends_well("plugin_inside", {"inside_with_channels", "host:0"}));
}
TEST(Plugins, WithoutADeviceStayForTheirClients) {
  if (const auto why = no_thread_locals_because(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_TRUE(ends_well("plugin_inside", {"inside_with_a_client", "host:0"}));
}
TEST(Plugins, WithoutADeviceStayForFilesOfStrangers) {
  if (const auto why = no_thread_locals_because(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_TRUE(ends_well("plugin_inside", {"inside_with_a_file", "host:0"}));
}
TEST(Plugins, WithAnUnusedLibraryGo) { EXPECT_TRUE(ends_well("plugin_inside", {"inside_unused", "host:0"})); }

}  // namespace
}  // namespace weir::test
