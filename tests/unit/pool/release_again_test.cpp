// SPDX-License-Identifier: Apache-2.0
// Memory that is closed while a pool gives other memory back. The thread that does so goes on with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "weir/buffer.hpp"
#include "weir/callback_resource.hpp"
#include "weir/pool.hpp"

namespace weir::pool {
namespace {

// Each time the pool gives a segment back, another thread takes one and closes it.
TEST(ReleaseAgain, TakesNoMoreOfTheStack) {
  constexpr std::size_t bytes = 1 << 20;
  constexpr int rounds = 500;
  int round = 0;
  std::uintptr_t lowest = ~std::uintptr_t{0}, highest = 0;
  PoolPtr pool;
  CallbackOptions options;
  options.allocate = [](std::size_t size, const Stream&) { return std::aligned_alloc(4096, size); };
  options.deallocate = [&](void* address, std::size_t) {
    std::free(address);
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    lowest = std::min(lowest, here);
    highest = std::max(highest, here);
    if (++round >= rounds) return;
    std::thread([&] { pool->allocate(bytes, Stream(host_device())).close(); }).join();
  };
  pool = make_pool(make_callback_resource(host_device(), options), {.segment_bytes = bytes, .release_threshold = 0});
  pool->allocate(bytes, Stream(host_device())).close();
  EXPECT_EQ(round, rounds);
  EXPECT_LT(highest - lowest, 16384U);
  EXPECT_EQ(pool->stats().reserved, 0U);
}

}  // namespace
}  // namespace weir::pool
