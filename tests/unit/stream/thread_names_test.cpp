// SPDX-License-Identifier: Apache-2.0
// What debuggers, profilers and `ps` show of the library's threads.

#include <gtest/gtest.h>
#include <pthread.h>

#include <array>

#include "weir/device.hpp"
#include "weir/stream.hpp"

namespace weir::test {
namespace {

TEST(ThreadNames, HostFunctionsRunOnAWorkerOfWeir) {
  std::array<char, 16> name{};
  const Stream stream(host_device());
  stream.call([&] { (void)pthread_getname_np(pthread_self(), name.data(), name.size()); });
  stream.synchronize();
  EXPECT_STREQ(name.data(), "weir worker");
  (void)pthread_getname_np(pthread_self(), name.data(), name.size());
  EXPECT_STRNE(name.data(), "weir worker");
}

}  // namespace
}  // namespace weir::test
