// SPDX-License-Identifier: Apache-2.0
// Pools with a release threshold that get no memory for what gives memory back later.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "gate.hpp"
#include "inject/allocations.hpp"
#include "loop.hpp"
#include "sink.hpp"
#include "time_limits.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

TEST(Thresholds, AReleaseThatGotNoMemoryIsMadeByTheNextClose) {
  const ShortLinger threads_end_soon;
  FailingAllocations injector(host_device());
  std::size_t refused = 0;
  for (std::size_t nth = 1;; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    ASSERT_TRUE(threads_end());  // so that the release needs a new one
    const auto pool = make_pool(host_device(), {.release_threshold = 0});
    const Stream stream(host_device());
    Gate gate;
    gate.hold(stream);
    Buffer buffer = pool->allocate(4096, stream);
    buffer.fill(std::byte{1}, stream);
    injector.arm(nth, 0);
    buffer.close();
    const bool hit = injector.disarm().has_value();
    pool->allocate(4096, stream).close();
    gate.open();
    const auto end = std::chrono::steady_clock::now() + answer_limit();
    while (pool->stats().reserved != 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    EXPECT_EQ(pool->stats().reserved, 0U);
    (void)take_reports();  // of a thread that could not start
    if (!hit) break;
    ++refused;
  }
  EXPECT_GT(refused, 0U) << "nothing was shown";
}

}  // namespace
}  // namespace weir::test
