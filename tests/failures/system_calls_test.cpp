// SPDX-License-Identifier: Apache-2.0
// The kernel refuses: each system call that weir makes in each scenario fails once with each of its errors.
#include <gtest/gtest.h>

#include "inject/system_calls.hpp"
#include "loop.hpp"
#include "peers.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"

namespace weir::test {
namespace {

class NoSystem : public testing::TestWithParam<Scenario> {};

TEST_P(NoSystem, OnTheHost) {
  const Stage stage(host_device());
  FailingSystemCalls injector(stage.device);
  fail_every_call(GetParam(), stage, injector);
}

void allocate_huge_pages(const Stage& stage) {
  const Stream stream(stage.device);
  (void)host::make_pageable_resource({.huge_pages = true})->allocate(std::size_t{2} << 20, stream);
}
constexpr Scenario huge_pages[] = {{"allocate_huge_pages", &allocate_huge_pages}};

INSTANTIATE_TEST_SUITE_P(Every, NoSystem, testing::ValuesIn(scenarios()), ScenarioName());
INSTANTIATE_TEST_SUITE_P(Peers, NoSystem, testing::ValuesIn(peers()), ScenarioName());
INSTANTIATE_TEST_SUITE_P(Paths, NoSystem, testing::ValuesIn(peers_at_paths()), ScenarioName());
INSTANTIATE_TEST_SUITE_P(Host, NoSystem, testing::ValuesIn(huge_pages), ScenarioName());

}  // namespace
}  // namespace weir::test
