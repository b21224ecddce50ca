// SPDX-License-Identifier: Apache-2.0
#include "alone.hpp"

#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string_view>

namespace weir::test {

testing::AssertionResult passes_alone(const std::string& filter, const std::vector<std::string>& environment) {
  std::string output_path = testing::TempDir() + "weir_alone_XXXXXX";
  const int output = mkstemp(output_path.data());
  std::vector<std::string> words{"/proc/self/exe", "--gtest_filter=" + filter, "--gtest_also_run_disabled_tests",
                                 "--gtest_output="};
  std::vector<char*> arguments, variables;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  auto settings = environment;
  for (std::string& setting : settings) variables.push_back(setting.data());
  for (char** variable = environ; *variable; ++variable) {
    if (!std::string_view(*variable).starts_with("GTEST_")) variables.push_back(*variable);
  }
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
  if (failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return testing::AssertionFailure() << filter << " failed alone:\n" << text.str();
  }
  if (text.str().find("[  PASSED  ] 0 tests") != std::string::npos) {
    return testing::AssertionFailure() << filter << " ran nothing:\n" << text.str();
  }
  return testing::AssertionSuccess();
}

}  // namespace weir::test
