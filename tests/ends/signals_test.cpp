// SPDX-License-Identifier: Apache-2.0
// Signals are the application's.
#include "memory.hpp"
#include "run.hpp"

namespace weir::test {
namespace {

class Signals : public testing::TestWithParam<Device> {};

std::vector<Device> first_devices() {
  auto all = devices();
  std::erase_if(all, [](const Device& device) { return device.ordinal() != 0; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Every, Signals, testing::ValuesIn(first_devices()), DeviceName());

TEST_P(Signals, AreNotTakenByTheLibrarysThreads) { EXPECT_TRUE(ends_well("signals_program", {GetParam().id()})); }

}  // namespace
}  // namespace weir::test
