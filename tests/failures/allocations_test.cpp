// SPDX-License-Identifier: Apache-2.0
// Memory itself runs out: each operator new of each scenario throws std::bad_alloc once.
#include <gtest/gtest.h>

#include "inject/allocations.hpp"
#include "loop.hpp"

namespace weir::test {
namespace {

class NoMemory : public testing::TestWithParam<Scenario> {};

TEST_P(NoMemory, OnTheHost) {
  const Stage stage(host_device());
  FailingAllocations injector(stage.device);
  fail_every_call(GetParam(), stage, injector);
}

INSTANTIATE_TEST_SUITE_P(Every, NoMemory, testing::ValuesIn(scenarios()), ScenarioName());

}  // namespace
}  // namespace weir::test
