// SPDX-License-Identifier: Apache-2.0
// What a release threshold gives back by itself: memory of an application's stream, also of one that ended unmarked.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <optional>
#include <thread>

#include "base/library_thread.hpp"
#include "pool/pool_resource.hpp"
#include "sink.hpp"
#include "stream/fake_stream.hpp"
#include "stream/release_queue.hpp"
#include "weir/buffer.hpp"
#include "weir/callback_resource.hpp"
#include "weir/error.hpp"
#include "weir/pool.hpp"

namespace weir::pool {
namespace {

constexpr std::size_t page = 4096;

class ReleaseThreshold : public testing::Test {
 protected:
  ReleaseThreshold() { applications->behaviour.foreign = true; }

  const PoolPtr pool = make_pool(make_resource(host_device()), {.segment_bytes = page});
  test::FakeStream* const applications = new test::FakeStream;
  std::optional<Stream> stream{spi::Ref<spi::StreamState>::adopt(applications)};
};

// The library's thread, which gives it back, marks nothing on that stream.
TEST_F(ReleaseThreshold, CoversWhatIsClosedWhileAReleaseWaits) {
  pool->set_release_threshold(0);
  for (int i = 0; i < 2; ++i) pool->allocate(page, *stream).close();
  EXPECT_EQ(pool->stats().reserved, page);
  applications->finish(100);
  while (pool->stats().reserved != 0) std::this_thread::yield();  // the watchdog ends it
}

// The same while that thread is at it.
TEST_F(ReleaseThreshold, CoversWhatIsClosedWhileOtherMemoryGoesBack) {
  auto* const fake = new test::FakeStream;
  const Stream other(spi::Ref<spi::StreamState>::adopt(fake));
  Buffer late;
  std::atomic<int> gone = 0;
  CallbackOptions options;
  options.allocate = [](std::size_t bytes, const Stream&) { return std::aligned_alloc(page, bytes); };
  options.deallocate = [&](void* address, std::size_t) {
    std::free(address);
    std::thread([&] { late.close(); }).join();
    ++gone;
  };
  const PoolPtr callbacks =
      make_pool(make_callback_resource(host_device(), options), {.segment_bytes = page, .release_threshold = 0});
  late = callbacks->allocate(page, *stream);
  Buffer first = callbacks->allocate(page, other);
  fake->put(test::FakeStream::fill());
  first.close();
  EXPECT_EQ(callbacks->stats().reserved, 2 * page);
  fake->finish(1);
  while (gone == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds{20});  // long enough for what would come too early
  EXPECT_EQ(gone, 1);
  applications->finish(100);
  while (gone != 2) std::this_thread::yield();  // the watchdog ends it
}

// It was captured until it ended, so nobody will ever know when its memory is free.
TEST_F(ReleaseThreshold, WaitsForNothingThatNobodyWillKnow) {
  applications->behaviour.on_mark = [] { throw Error(Errc::unsupported, "captured"); };
  auto* const fake = new test::FakeStream;
  const Stream other(spi::Ref<spi::StreamState>::adopt(fake));
  pool->allocate(page, *stream).close();
  Buffer buffer = pool->allocate(page, other);  // looks at the first stream, which has a point from then on
  {
    const detail::LibraryThread marks_nothing;
    stream.reset();
  }
  EXPECT_EQ(test::take_reports().size(), 1U) << "that its last point could not be recorded";
  pool->set_release_threshold(0);
  fake->put(test::FakeStream::fill());
  buffer.close();
  EXPECT_EQ(pool->stats().reserved, 2 * page);
  fake->finish(1);
  while (pool->stats().reserved != page) std::this_thread::yield();  // the watchdog ends it
}

// The same when it ends while a release waits for it.
TEST_F(ReleaseThreshold, WaitsNoMoreForWhatNobodyWillKnow) {
  applications->behaviour.on_mark = [] { throw Error(Errc::unsupported, "captured"); };
  auto* const fake = new test::FakeStream;
  const Stream other(spi::Ref<spi::StreamState>::adopt(fake));
  pool->set_release_threshold(0);
  Buffer lost = pool->allocate(page, *stream), buffer = pool->allocate(page, other);
  fake->put(test::FakeStream::fill());
  lost.close();
  {
    const detail::LibraryThread marks_nothing;
    stream.reset();
  }
  EXPECT_EQ(test::await_reports(1).size(), 1U) << "that its last point could not be recorded";
  buffer.close();
  EXPECT_EQ(pool->stats().reserved, 2 * page);
  fake->finish(1);
  while (pool->stats().reserved != page) std::this_thread::yield();  // the watchdog ends it
}

// Some memory waits at any time, but that alone is no reason to look again.
TEST_F(ReleaseThreshold, IsKeptLessOftenWhereMemoryIsNeededAgain) {
  const Stream home(host_device());
  const Buffer live = pool->allocate(4 * page, home);
  test::FakeStream* const fakes[] = {new test::FakeStream, new test::FakeStream};
  const Stream streams[] = {Stream(spi::Ref<spi::StreamState>::adopt(fakes[0])),
                            Stream(spi::Ref<spi::StreamState>::adopt(fakes[1]))};
  pool->set_release_threshold(page);
  for (int i = 0; i < 2000; ++i) {
    Buffer buffer = pool->allocate(page, streams[i % 2]);
    fakes[i % 2]->put(test::FakeStream::fill());
    buffer.close();
    fakes[(i + 1) % 2]->finish(fakes[(i + 1) % 2]->issued());
    detail::settle_releases(host_device().state());
  }
  EXPECT_LT(pool->pool_stats().grown, 30U);
  for (test::FakeStream* fake : fakes) fake->finish(fake->issued());
}

TEST_F(ReleaseThreshold, CostsNothingOnceThereIsNone) {
  const Stream home(host_device());
  pool->set_release_threshold(0);
  Buffer buffer = pool->allocate(page, home);
  pool->set_release_threshold(std::numeric_limits<std::size_t>::max());
  buffer.close();  // tells the pool that the cache has something to give
  const auto* const cache = static_cast<const Cache*>(
      home.state().attached(static_cast<const PoolResource*>(pool.get()), sync::this_thread()));
  EXPECT_EQ(cache->closes.flags(), 0U);
}

}  // namespace
}  // namespace weir::pool
