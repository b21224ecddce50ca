// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>

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

testing::AssertionResult passes_alone(const std::string& filter, const std::vector<std::string>& environment) {
  std::string output_path = testing::TempDir() + "weir_vulkan_XXXXXX";
  const int output = mkstemp(output_path.data());
  std::vector<std::string> words{"/proc/self/exe", "--gtest_filter=" + filter, "--gtest_also_run_disabled_tests",
                                 "--gtest_output="};
  std::vector<char*> arguments, variables;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  auto settings = environment;
  for (auto& setting : settings) variables.push_back(setting.data());
  for (char** variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("GTEST_")) variables.push_back(*variable);
  variables.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t child = -1;
  const int failed = posix_spawn(&child, words[0].c_str(), &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (!failed) waitpid(child, &status, 0);
  close(output);
  std::stringstream text;
  text << std::ifstream(output_path).rdbuf();
  unlink(output_path.c_str());
  if (failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return testing::AssertionFailure() << filter << " failed alone:\n" << text.str();
  if (text.str().find("[  PASSED  ] 0 tests") != std::string::npos)
    return testing::AssertionFailure() << filter << " ran nothing:\n" << text.str();
  return testing::AssertionSuccess();
}

}  // namespace weir::vulkan::test
