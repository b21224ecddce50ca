// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app.hpp"

namespace weir::vulkan::test {
namespace {

std::string why_no_vulkan() {
  for (const auto& backend : backends())
    if (backend.name == "vulkan") return backend.unavailable_because;
  return "not built";
}

}  // namespace

void OnVulkan::SetUp() {
  const auto why = why_no_vulkan();
  if (why.empty()) return;
  if (required()) FAIL() << "WEIR_REQUIRE names vulkan: " << why;
  GTEST_SKIP() << "no Vulkan device: " << why;
}

void OnApp::SetUp() {
  std::string reason;
  app.reset(App::create(reason));
  if (!app && required()) FAIL() << "WEIR_REQUIRE names vulkan: " << reason;
  if (!app) GTEST_SKIP() << "no Vulkan device: " << reason;
  adopted_ = adopt(app->options());
  calls().reset();
}

void OnApp::give_back() {
  if (adopted_) vulkan::release(*adopted_);
  adopted_.reset();
}

void OnApp::TearDown() {
  if (!app) return;
  calls().fail_nothing();
  try {
    give_back();
  } catch (const Error& error) {
    (void)app.release();  // still in use
    FAIL() << error.what();
  }
  const auto made = [](const char* call) { return calls().effective(call); };
  EXPECT_EQ(made("vkFreeMemory"), made("vkAllocateMemory"));
  EXPECT_EQ(made("vkDestroyBuffer"), made("vkCreateBuffer"));
  EXPECT_EQ(made("vkDestroySemaphore"), made("vkCreateSemaphore"));
  EXPECT_EQ(made("vkDestroyCommandPool"), made("vkCreateCommandPool"));
  EXPECT_EQ(app->locks, app->unlocks);
  app.reset();
  EXPECT_EQ(App::take_messages(), 0) << "validation is not silent, see above";
}

}  // namespace weir::vulkan::test
