// SPDX-License-Identifier: Apache-2.0
// Memory that is closed while a pool gives other memory back. The thread that does so goes on with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <thread>

#include "weir/buffer.hpp"
#include "weir/callback_resource.hpp"
#include "weir/pool.hpp"

namespace weir::pool {
namespace {

/// How much of the stack of one thread was in use.
struct Depth {
  std::uintptr_t lowest = ~std::uintptr_t{0}, highest = 0;
};

// Each time the pool gives a segment back, another thread takes one and closes it. A close that goes on with that does
// so for a few rounds. Then the library's thread does.
TEST(ReleaseAgain, TakesNoMoreOfTheStackAndNoMoreOfAClose) {
  constexpr std::size_t bytes = 1 << 20;
  constexpr int rounds = 500;
  std::atomic<int> round = 0, here = 0;
  std::map<std::thread::id, Depth> depths;
  const auto caller = std::this_thread::get_id();
  PoolPtr pool;
  CallbackOptions options;
  options.allocate = [](std::size_t size, const Stream&) { return std::aligned_alloc(4096, size); };
  options.deallocate = [&](void* address, std::size_t) {
    std::free(address);
    const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    Depth& depth = depths[std::this_thread::get_id()];  // one thread at a time gives back
    depth.lowest = std::min(depth.lowest, frame);
    depth.highest = std::max(depth.highest, frame);
    here += std::this_thread::get_id() == caller ? 1 : 0;
    if (++round >= rounds) return;
    std::thread([&] { pool->allocate(bytes, Stream(host_device())).close(); }).join();
  };
  pool = make_pool(make_callback_resource(host_device(), options), {.segment_bytes = bytes, .release_threshold = 0});
  pool->allocate(bytes, Stream(host_device())).close();
  EXPECT_LT(here, 10);
  while (round != rounds || pool->stats().reserved != 0) std::this_thread::yield();  // the watchdog ends it
  for (const auto& [thread, depth] : depths) EXPECT_LT(depth.highest - depth.lowest, 16384U);
}

}  // namespace
}  // namespace weir::pool
