// SPDX-License-Identifier: Apache-2.0
// What a pool makes of the answers of streams: of one that others use meanwhile, and of one that ends.
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/library_thread.hpp"
#include "sink.hpp"
#include "stream/fake_stream.hpp"
#include "weir/buffer.hpp"
#include "weir/error.hpp"
#include "weir/pool.hpp"

namespace weir::pool {
namespace {

PoolPtr one_page() {
  return make_pool(make_resource(host_device()),
                   {.limit = 4096, .segment_bytes = 4096, .reuse = ReusePolicy::passed_only, .patience = {}});
}

// What is closed while an application's stream is asked: others may have used it after the question.
TEST(AskingStreams, CoversNothingThatIsClosedAfterIt) {
  const auto pool = one_page();
  auto* fake = new test::FakeStream;
  fake->behaviour.foreign = true;
  Buffer first, second;
  bool in_the_middle = false;
  fake->behaviour.on_poll = [&] {
    if (in_the_middle) second.close();
  };
  const Stream application{spi::Ref<spi::StreamState>::adopt(fake)}, other(host_device());
  first = pool->allocate(2048, application);
  second = pool->allocate(2048, application);
  first.close();
  fake->finish(fake->issued() + 1);  // the point that the question makes
  in_the_middle = true;
  EXPECT_TRUE(pool->try_allocate(2048, other).has_value()) << "what was closed before";
  EXPECT_TRUE(second.is_closed());
  in_the_middle = false;
  EXPECT_FALSE(pool->try_allocate(4096, other).has_value()) << "the next question covers it, and is not answered";
  fake->finish(100);  // and whatever is asked later
  EXPECT_TRUE(pool->try_allocate(4096, other).has_value());
}

// It ended before its last point could be marked. The watchdog ends a request that waits for it.
TEST(AskingStreams, NobodyWaitsForMemoryThatIsNeverFree) {
  const auto pool = make_pool(make_resource(host_device()),
                              {.limit = 8192, .segment_bytes = 4096, .patience = std::chrono::hours{24}});
  auto* fake = new test::FakeStream;
  fake->behaviour.foreign = true;
  fake->behaviour.on_mark = [] { throw Error(Errc::unsupported, "captured"); };
  const Stream other(host_device());
  std::optional<Stream> ending(spi::Ref<spi::StreamState>::adopt(fake));
  pool->allocate(4096, *ending).close();
  const Buffer live = pool->allocate(4096, other);
  {
    const detail::LibraryThread marks_nothing;
    ending.reset();
  }
  EXPECT_EQ(test::take_reports().size(), 1U) << "that its last point could not be recorded";
  EXPECT_FALSE(pool->try_allocate(4096, other).has_value());
}

TEST(AskingStreams, WhatWaitsForAnotherWaitsForTheEndedOneToo) {
  const auto pool = one_page();
  auto *home = new test::FakeStream, *elsewhere = new test::FakeStream;
  const Stream user{spi::Ref<spi::StreamState>::adopt(elsewhere)}, other(host_device());
  {
    const Stream ending{spi::Ref<spi::StreamState>::adopt(home)};
    const Buffer buffer = pool->allocate(4096, ending);
    home->put(test::FakeStream::fill());
    elsewhere->put(test::FakeStream::fill());
    buffer.use_on(user);
  }
  elsewhere->finish(1);
  EXPECT_FALSE(pool->try_allocate(4096, other).has_value());
  home->finish(1);
  EXPECT_TRUE(pool->try_allocate(4096, other).has_value());
  while (pool->pool_stats().streams != 1) std::this_thread::yield();
}

// Memory of several pools waits for one stream, in turns, and part of it for another stream after that.
TEST(AskingStreams, WhatPassesTogetherGoesBackToItsOwnPool) {
  constexpr std::size_t each = 1024;
  const PoolPtr pools[]{one_page(), one_page()};
  auto *used = new test::FakeStream, *second = new test::FakeStream;
  const Stream user{spi::Ref<spi::StreamState>::adopt(used)}, later{spi::Ref<spi::StreamState>::adopt(second)};
  const Stream home(host_device()), other(host_device());
  used->put(test::FakeStream::fill());
  second->put(test::FakeStream::fill());
  for (std::size_t i = 0; i < 8; ++i) {
    Buffer buffer = pools[i % 2]->allocate(each, home);
    if (i < 2) buffer.use_on(later);
    buffer.use_on(user);
    buffer.close();
  }
  const auto free_in = [&](const PoolPtr& pool) {
    std::vector<Buffer> got;
    while (auto buffer = pool->try_allocate(each, other)) got.push_back(std::move(*buffer));
    return got.size();
  };
  EXPECT_EQ(free_in(pools[0]) + free_in(pools[1]), 0U);
  used->finish(1);
  EXPECT_EQ(free_in(pools[0]), 3U);
  EXPECT_EQ(free_in(pools[1]), 3U);
  second->finish(1);
  EXPECT_EQ(free_in(pools[0]), 4U);
  EXPECT_EQ(free_in(pools[1]), 4U);
  for (const PoolPtr& pool : pools) {
    EXPECT_EQ(pool->stats().in_use, 0U);
    (void)pool->trim(0);
    EXPECT_EQ(pool->stats().reserved, 0U) << "nothing of it is anywhere else";
  }
}

}  // namespace
}  // namespace weir::pool
