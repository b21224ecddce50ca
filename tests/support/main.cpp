// SPDX-License-Identifier: Apache-2.0
// main() of every test program: environment, one line per backend, a watchdog, what must hold of the whole run, and
// its summary.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "crash.hpp"
#include "judged_vulkan.hpp"
#include "modelled_driver.hpp"
#include "same_gpu.hpp"
#include "settle.hpp"
#include "sink.hpp"
#include "stack.hpp"
#include "summary.hpp"
#include "time_limits.hpp"
#include "watchdog.hpp"
#include "weir/device.hpp"
#if WEIR_HAS_VULKAN
#include "weir/vulkan.hpp"
#endif

namespace weir::test {
namespace {

/// Fails the running test for reports that it did not take, and feeds the watchdog.
class Observer : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& info) override {
    watchdog_.watch(std::string(info.test_suite_name()) + '.' + info.name());
  }
  void OnTestEnd(const testing::TestInfo&) override {
    watchdog_.watch({});
    for (const Reported& report : take_reports()) {
      ADD_FAILURE() << "reported to the failure sink by " << report.where << ": " << report.message;
    }
    if (const auto broken = take_violations(); !broken.empty()) ADD_FAILURE() << "the modelled driver saw\n" << broken;
    if (const auto broken = take_judgements(); !broken.empty()) ADD_FAILURE() << "the judge of Vulkan saw\n" << broken;
  }

 private:
  Watchdog watchdog_{test_limit()};
};

void print_backends() {
  for (const BackendInfo& backend : backends()) {
    if (backend.devices.empty()) {
      std::printf("%s: no devices: %s\n", backend.name.c_str(), backend.unavailable_because.c_str());
    }
    for (const Device& device : backend.devices) {
      std::printf("%s: %s, %s\n", device.id().c_str(), std::string(device.name()).c_str(),
                  std::string(device.driver()).c_str());
      if (std::ranges::none_of(device.kinds(), &KindInfo::exportable)) {
        std::printf("%s: sharing between processes is not tried, because no kind of its memory says exportable\n",
                    device.id().c_str());
      }
    }
  }
  if (std::getenv("WEIR_STACKS")) {
    std::printf("WEIR_STACKS leaves");
    for (const Stack& stack : stacks()) std::printf(" %s", std::string(stack.name).c_str());
    std::printf("\n");
  }
#if WEIR_HAS_VULKAN
  std::printf("Vulkan validation: %s\n", vulkan::validation_active() ? "on" : "off, or its layer is not installed");
#endif
  std::fflush(stdout);
}

/// Backends named in WEIR_REQUIRE that have no devices, and views if none can be had; each is printed.
std::size_t count_missing() {
  std::size_t missing = 0;
  const char* text = getenv("WEIR_REQUIRE");
  std::string_view rest = text ? text : "";
  while (!rest.empty()) {
    const auto name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    std::string why = "this build has no such backend";
    for (const BackendInfo& backend : backends()) {
      if (backend.name == name) why = backend.unavailable_because;
    }
    if (name == "views") why = why_no_views();
    if (name.empty() || why.empty()) continue;
    std::printf("WEIR_REQUIRE names %s, which has no devices: %s\n", std::string(name).c_str(), why.c_str());
    ++missing;
  }
  return missing;
}

std::size_t count_late_reports() {
  const auto reports = take_reports();
  for (const Reported& report : reports) {
    std::printf("reported to the failure sink by %s after the last test: %s\n", report.where.c_str(),
                report.message.c_str());
  }
  return reports.size();
}

std::size_t count_late_violations() {
  const auto broken = take_violations() + take_judgements();
  if (!broken.empty()) std::printf("the driver's model or judge saw after the last test\n%s", broken.c_str());
  return broken.empty() ? 0 : 1;
}

std::size_t count_validation_errors() {
#if WEIR_HAS_VULKAN
  const auto count = static_cast<std::size_t>(vulkan::validation_errors());
  if (count) std::printf("Vulkan validation found %zu errors; see above\n", count);
  return count;
#else
  return 0;
#endif
}

}  // namespace
}  // namespace weir::test

int main(int argc, char** argv) {
  using namespace weir::test;
  print_crashes();
  setenv("WEIR_VULKAN_VALIDATION", "1", 0);
  choose_judged_vulkan();
  if (said_uuid()) return 0;
  choose_same_gpu();
  setenv("XDG_RUNTIME_DIR", "/tmp", 0);
  install_sink();
  const bool only_list = std::find(argv, argv + argc, std::string_view("--gtest_list_tests")) != argv + argc;
  testing::InitGoogleTest(&argc, argv);
  if (only_list) return RUN_ALL_TESTS();
  print_backends();
  testing::UnitTest::GetInstance()->listeners().Append(new Observer);
  testing::AddGlobalTestEnvironment(new Summary);
  const int result = RUN_ALL_TESTS();
  await_threads();  // streams of the last tests may still end, and drivers and their models end with the process
  const std::size_t wrong =
      count_missing() + count_late_reports() + count_late_violations() + count_validation_errors();
  return result != 0 || wrong != 0 ? 1 : 0;
}
