// SPDX-License-Identifier: Apache-2.0
// Memory itself runs out: each operator new of each scenario throws std::bad_alloc once.
#include <gtest/gtest.h>

#include "inject/allocations.hpp"
#include "loop.hpp"
#include "peers.hpp"

namespace weir::test {
namespace {

class NoMemory : public testing::TestWithParam<Scenario> {};

TEST_P(NoMemory, OnTheHost) {
  const Stage stage(host_device());
  FailingAllocations injector(stage.device);
  fail_every_call(GetParam(), stage, injector);
}

/// Between peers, what there is no memory to say now is said later.
class FailingBetweenPeers final : public FailingAllocations {
 public:
  using FailingAllocations::FailingAllocations;
  const char* harmless(const Injected& /*call*/) override { return "a connection tries again later"; }
};

class NoMemoryForPeers : public NoMemory {};

TEST_P(NoMemoryForPeers, OnTheHost) {
  const Stage stage(host_device());
  FailingBetweenPeers injector(stage.device);
  fail_every_call(GetParam(), stage, injector);
}

// On the threads that serve peers. None of them may end for that.
TEST_P(NoMemoryForPeers, OnOtherThreads) {
  const Stage stage(host_device());
  FailingBetweenPeers injector(stage.device, nullptr, Whose::others);
  fail_every_call(GetParam(), stage, injector);
}

INSTANTIATE_TEST_SUITE_P(Every, NoMemory, testing::ValuesIn(scenarios()), ScenarioName());
INSTANTIATE_TEST_SUITE_P(Peers, NoMemoryForPeers, testing::ValuesIn(peers()), ScenarioName());
INSTANTIATE_TEST_SUITE_P(Paths, NoMemoryForPeers, testing::ValuesIn(peers_at_paths()), ScenarioName());

}  // namespace
}  // namespace weir::test
