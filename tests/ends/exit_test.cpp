// SPDX-License-Identifier: Apache-2.0
// Every way in which a process ends, with everything of one device alive.
#include "memory.hpp"
#include "run.hpp"

namespace weir::test {
namespace {

class Exit : public testing::TestWithParam<Device> {
 protected:
  static testing::AssertionResult ends(const char* way, int code = 0) {
    return ends_well("exit_program", {way, GetParam().id()}, code);
  }
};

// One device of each backend: what can go wrong here differs between drivers, not between devices.
std::vector<Device> first_devices() {
  auto all = devices();
  std::erase_if(all, [](const Device& device) { return device.ordinal() != 0; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Every, Exit, testing::ValuesIn(first_devices()), DeviceName());

TEST_P(Exit, WithEverythingAlive) { EXPECT_TRUE(ends("with_everything_alive")); }
TEST_P(Exit, WithWorkUnderWay) { EXPECT_TRUE(ends("with_work_under_way")); }
TEST_P(Exit, WithWorkHeldForEver) { EXPECT_TRUE(ends("with_work_held_for_ever")); }
TEST_P(Exit, WithWorkLetGoWhileItEnds) { EXPECT_TRUE(ends("with_work_let_go_at_exit")); }
TEST_P(Exit, WhileOthersWork) { EXPECT_TRUE(ends("while_others_work")); }
TEST_P(Exit, InAnotherThread) { EXPECT_TRUE(ends("exit_in_another_thread")); }
TEST_P(Exit, InAHostFunction) { EXPECT_TRUE(ends("exit_in_a_host_function")); }
TEST_P(Exit, InAServersThread) {
  if (const auto why = no_forks_because(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_TRUE(ends("exit_in_a_servers_thread"));
}
TEST_P(Exit, WithHandlersThatUseIt) { EXPECT_TRUE(ends("handlers_that_use_it")); }
TEST_P(Exit, WithEarlyHandlersThatDropIt) { EXPECT_TRUE(ends("early_handlers_that_drop_it")); }
TEST_P(Exit, WithCurrentResources) { EXPECT_TRUE(ends("with_current_resources")); }
TEST_P(Exit, WithFilesThatBlock) { EXPECT_TRUE(ends("with_files_that_block")); }
TEST_P(Exit, Quickly) { EXPECT_TRUE(ends("quick")); }
TEST_P(Exit, AtOnce) { EXPECT_TRUE(ends("at_once")); }
TEST_P(Exit, ByAnException) { EXPECT_TRUE(ends("by_an_exception", 42)); }
TEST_P(Exit, AfterTheMainThread) {
  if (const auto why = no_end_of_main_thread_because(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_TRUE(ends("main_thread_first"));
}

TEST(Leases, OutliveTheFileInWhichTheirEndsAreTold) { EXPECT_TRUE(ends_well("leases_program", {})); }

}  // namespace
}  // namespace weir::test
