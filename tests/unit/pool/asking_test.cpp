// SPDX-License-Identifier: Apache-2.0
// What a pool makes of the answers of streams: of one that others use meanwhile, and of one that ends.
#include <gtest/gtest.h>

#include <thread>

#include "../fake_stream.hpp"
#include "weir/buffer.hpp"
#include "weir/resources/pool.hpp"

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
  EXPECT_FALSE(pool->try_allocate(4096, other).has_value())
      << "the next question covers it, and is not answered";
  fake->finish(100);  // and whatever is asked later
  EXPECT_TRUE(pool->try_allocate(4096, other).has_value());
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

}  // namespace
}  // namespace weir::pool
