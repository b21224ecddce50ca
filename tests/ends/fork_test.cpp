// SPDX-License-Identifier: Apache-2.0
// What a forked child may do with what it inherits.
#include "memory.hpp"
#include "run.hpp"

namespace weir::test {
namespace {

class Fork : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = no_forks_because(); !why.empty()) GTEST_SKIP() << why;
  }
  static testing::AssertionResult works(const char* name) { return ends_well("fork_program", {name, "host:0"}); }
};

TEST_F(Fork, IdleObjectsWorkInTheChild) { EXPECT_TRUE(works("idle_objects")); }
TEST_F(Fork, HeldWorkGoesOnInBoth) { EXPECT_TRUE(works("held_work_goes_on")); }
TEST_F(Fork, DroppedStreamsGoOnInBoth) { EXPECT_TRUE(works("dropped_streams_go_on")); }
TEST_F(Fork, HalfAHostFunctionLosesItsStreamInTheChild) { EXPECT_TRUE(works("function_under_way")); }
TEST_F(Fork, AHostFunctionMayFork) { EXPECT_TRUE(works("fork_in_a_host_function")); }
TEST_F(Fork, ExportsStayTheParents) { EXPECT_TRUE(works("exports_stay_the_parents")); }
TEST_F(Fork, ChildrenMayForkAgain) { EXPECT_TRUE(works("grandchildren")); }
TEST_F(Fork, ReleasesGoOn) { EXPECT_TRUE(works("release_under_way")); }
TEST_F(Fork, TheCurrentResourceGoesOn) { EXPECT_TRUE(works("current_resource_goes_on")); }
TEST_F(Fork, LeasesCountChildren) { EXPECT_TRUE(works("leases_count_children")); }
TEST_F(Fork, FilesOfStrangersAreClosedInBoth) { EXPECT_TRUE(works("files_of_strangers")); }
TEST_F(Fork, ServersAndClientsStayTheParents) { EXPECT_TRUE(ends_well("fork_names_program", {"host:0"})); }
TEST_F(Fork, ChildrenOfTheKilledHideNoDeath) { EXPECT_TRUE(ends_well("fork_killed_program", {"host:0"})); }
TEST_F(Fork, ChannelsAreLeftWhileThreadsWait) { EXPECT_TRUE(ends_well("fork_waits_program", {"receivers"})); }
TEST_F(Fork, ChannelsAreLeftInTheMiddle) { EXPECT_TRUE(ends_well("fork_waits_program", {"in_the_middle"})); }
TEST_F(Fork, SubscriptionsAreLeftWhileThreadsWait) { EXPECT_TRUE(ends_well("fork_waits_program", {"subscribers"})); }
TEST_F(Fork, HeldSetsAreLeftWhileThreadsWait) { EXPECT_TRUE(ends_well("fork_waits_program", {"readers_and_writers"})); }
TEST_F(Fork, FirstUsesMayBeUnderWay) { EXPECT_TRUE(ends_well("fork_first_program", {})); }
TEST_F(Fork, AChildMayExit) { EXPECT_TRUE(works("child_that_exits")); }

class ForkOfDevice : public Fork, public testing::WithParamInterface<Device> {
 protected:
  static testing::AssertionResult works(const char* name) {
    return ends_well("fork_gpu_program", {name, GetParam().id()});
  }
};
class ForkWithThreads : public ForkOfDevice {};

// One device of each backend: what can go wrong here differs between drivers, not between devices.
std::vector<Device> first_devices(bool with_host) {
  auto all = devices();
  std::erase_if(
      all, [&](const Device& device) { return device.ordinal() != 0 || (!with_host && device.backend() == "host"); });
  return all;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ForkOfDevice);
INSTANTIATE_TEST_SUITE_P(Every, ForkOfDevice, testing::ValuesIn(first_devices(false)), DeviceName());
INSTANTIATE_TEST_SUITE_P(Every, ForkWithThreads, testing::ValuesIn(first_devices(true)), DeviceName());

TEST_P(ForkOfDevice, IsRefusedInTheChild) { EXPECT_TRUE(works("idle_objects")); }
TEST_P(ForkOfDevice, IsRefusedInTheChildWithWorkUnderWay) { EXPECT_TRUE(works("work_under_way")); }
TEST_P(ForkOfDevice, MayBeUsedFirstInTheChild) { EXPECT_TRUE(works("first_use_in_the_child")); }
TEST_P(ForkOfDevice, StaysTheParentsWhereReadersOfHeldSetsEnd) { EXPECT_TRUE(works("readers_of_held_sets")); }
TEST_P(ForkOfDevice, MayBeInLoadingDuringTheFork) { EXPECT_TRUE(works("while_the_driver_loads")); }

TEST_P(ForkWithThreads, HangsNowhere) { EXPECT_TRUE(ends_well("fork_threads_program", {"50", GetParam().id()})); }

}  // namespace
}  // namespace weir::test
