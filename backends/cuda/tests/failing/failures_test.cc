// SPDX-License-Identifier: Apache-2.0
// The CUDA driver refuses: each call in each scenario fails once with each of its errors, over the real driver and over
// the modelled one; and there the device faults at each call.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string_view>
#include <vector>

#include "driver.hpp"
#include "inject/allocations.hpp"
#include "inject/system_calls.hpp"
#include "loop.hpp"
#include "modelled_driver.hpp"
#include "native_scenarios.hpp"
#include "peers.hpp"
#include "spawn.hpp"
#include "watchdog.hpp"
#include "weir/cuda.hpp"

namespace weir::cuda_test {
namespace {

constexpr const char* refused_elsewhere = "the same calls are refused over the modelled driver, and sooner";

bool over_model() { return test::find_in_model("fake_cuda_fault") != nullptr; }

class OnCuda : public testing::TestWithParam<test::Scenario> {
 protected:
  void SetUp() override {
    for (const BackendInfo& backend : backends()) {
      if (backend.name == "cuda" && backend.devices.empty()) GTEST_SKIP() << backend.unavailable_because;
    }
    if (!runs_over_shim()) GTEST_SKIP() << "WEIR_CUDA_LIBRARY is not the library that makes calls fail";
  }

  /// What the program of fault_child.cc finds, which runs each failure in a process of its own.
  static void in_children(const char* mode) {
    test::Child child(WEIR_CHILD_DIR "/cuda_fault_child", {mode, GetParam().name});
    std::string line = child.line();
    int failures = 0;
    for (; failures < 10; line = child.line()) {
      test::Watchdog::note_progress();
      if (line == "trying") continue;
      if (!line.starts_with("failed ")) break;
      ++failures;
      ADD_FAILURE() << line.substr(7);
    }
    ASSERT_EQ(line.rfind("done ", 0), 0U) << "it said: " << line;
    RecordProperty("injected_failures", line.substr(5));
    EXPECT_EQ(child.wait(), 0);
  }
};

/// The page that peers see stays when a device has written it. Whether a scenario makes it depends on how fast the
/// device is. The driver's thread for host functions stays, too, under the name of the thread that needed it first: this
/// one, not one of the library's threads, which all have to end.
void make_what_stays(const test::Stage& stage) {
  const Stream stream(stage.device);
  stream.call([] {});
  stream.synchronize();
  const auto* const scenario = scenario_named("wait_for_a_peers_work");
  if (!scenario->lack(stage)) scenario->run(stage);
}

TEST_P(OnCuda, CallsOfTheDriver) {
  const test::Stage stage(cuda::device(0));
  FailingCuda injector;
  make_what_stays(stage);
  if (!GetParam().lack(stage)) GetParam().run(stage);
  const long before = injector.events();
  fail_every_call(GetParam(), stage, injector);
  constexpr long slack = 16;  // how many are needed at once depends on how soon the device is done
  EXPECT_LE(injector.events() - before, slack) << "events are lost when calls fail";
}

// The kernel, and operator new, refuse. Nothing of that depends on the driver.
class OnCudaWithoutSystem : public OnCuda {};

TEST_P(OnCudaWithoutSystem, SystemCalls) {
  if (!over_model()) GTEST_SKIP() << refused_elsewhere;
  const test::Stage stage(cuda::device(0));
  FailingCuda driver;
  test::FailingSystemCalls injector(stage.device, &driver);
  fail_every_call(GetParam(), stage, injector);
}

// Why a scenario is not run without memory.
const char* left_out(std::string_view scenario) {
  if (scenario == "give_memory_by_address" || scenario == "pass_leases")
    return "not built: a reported leak keeps a stream, and the test waits until all streams have ended";
  return nullptr;
}

TEST_P(OnCudaWithoutSystem, Memory) {
  if (!over_model()) GTEST_SKIP() << refused_elsewhere;
  if (const char* const why = left_out(GetParam().name)) GTEST_SKIP() << why;
  const test::Stage stage(cuda::device(0));
  FailingCuda driver;
  test::FailingAllocations injector(stage.device, &driver);
  driver.around(&test::Unharmed::begin, &test::Unharmed::end);
  fail_every_call(GetParam(), stage, injector);
}

TEST_P(OnCuda, FaultsOfTheDevice) {
  if (!over_model()) GTEST_SKIP() << "a real device faults in FaultOfAKernel, and not at a chosen call";
  in_children("fault");
}

INSTANTIATE_TEST_SUITE_P(Every, OnCuda, testing::ValuesIn(test::scenarios()), test::ScenarioName());
INSTANTIATE_TEST_SUITE_P(Peers, OnCuda, testing::ValuesIn(test::peers()), test::ScenarioName());
INSTANTIATE_TEST_SUITE_P(Paths, OnCuda, testing::ValuesIn(test::peers_at_paths()), test::ScenarioName());
INSTANTIATE_TEST_SUITE_P(Native, OnCuda, testing::ValuesIn(native_scenarios()), test::ScenarioName());
INSTANTIATE_TEST_SUITE_P(Every, OnCudaWithoutSystem, testing::ValuesIn(test::scenarios()), test::ScenarioName());
INSTANTIATE_TEST_SUITE_P(Native, OnCudaWithoutSystem, testing::ValuesIn(native_scenarios()), test::ScenarioName());

constexpr const char* quick = "copy_through_host";

// These make on first use whatever any scenario makes.
std::vector<test::Scenario> makers() {
  std::vector<test::Scenario> chosen;
  for (const char* name : {quick, "allocate_every_kind", "exchange_tensors", "pass_descriptors", "borrow_memory",
                           "hand_streams_out", "wait_for_the_host", "make_pools", "use_a_second_device"}) {
    chosen.push_back(*scenario_named(name));
  }
  return chosen;
}

class FirstCalls : public OnCuda {};

// From the loading of the driver on.
TEST_P(FirstCalls, OfAProcess) {
  if (!over_model() && std::string_view(GetParam().name) != quick) {
    GTEST_SKIP() << "a real driver takes half a second to start, and this starts it for every call";
  }
  in_children(over_model() ? "cold" : "few");
}

INSTANTIATE_TEST_SUITE_P(Every, FirstCalls, testing::ValuesIn(makers()), test::ScenarioName());

}  // namespace
}  // namespace weir::cuda_test
