// SPDX-License-Identifier: Apache-2.0
// Streams that end or are lost while another stream is about to take the memory that was closed on them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "sink.hpp"
#include "stream/fake_stream.hpp"
#include "weir/buffer.hpp"
#include "weir/error.hpp"
#include "weir/pool.hpp"

namespace weir::pool {
namespace {

constexpr std::size_t page = 4096, pages = 8;

PoolPtr growing_pool() {
  return make_pool(make_resource(host_device()),
                   {.segment_bytes = pages * page, .reuse = ReusePolicy::wait_rather_than_grow, .patience = {}});
}

/// Close a buffer of all the memory there is while its stream works on it.
void close_while_working(const PoolPtr& pool, const Stream& stream, test::FakeStream& working) {
  Buffer buffer = pool->allocate(pages * page, stream);
  working.put(test::FakeStream::fill());
  buffer.close();
}

class TakenMeanwhile : public testing::Test {
 protected:
  PoolPtr pool = growing_pool();
  test::FakeStream* const first = new test::FakeStream;
  std::optional<Stream> stream{spi::Ref<spi::StreamState>::adopt(first)};
};

// It ends while it cannot be forgotten, because the other stream is told to wait for it.
TEST_F(TakenMeanwhile, FromAStreamThatEnds) {
  std::atomic<bool> ended = false, asked = false;
  first->behaviour.on_end = [&] { ended = true; };
  std::atomic<bool> finished = false;
  first->behaviour.on_poll = [&] { asked = finished.load(); };
  auto* const second = new test::FakeStream;
  const Stream other(spi::Ref<spi::StreamState>::adopt(second));
  second->behaviour.waits_natively = true;
  second->behaviour.on_waits_natively = [&] {
    if (finished) return;
    first->finish(1);
    finished = true;
    while (!asked) std::this_thread::yield();                    // the library's thread looks after the stream
    std::this_thread::sleep_for(std::chrono::milliseconds{50});  // nothing tells when it is done with that
  };
  close_while_working(pool, *stream, *first);
  stream.reset();
  const Buffer taken = pool->allocate(page, other);
  EXPECT_EQ(pool->pool_stats().grown, 1U);
  while (!ended) std::this_thread::yield();  // the watchdog ends it if something keeps the stream
  second->finish(1);
}

TEST_F(TakenMeanwhile, NotFromAStreamThatIsLost) {
  close_while_working(pool, *stream, *first);
  first->lose_by_hand();
  const Stream other(host_device());
  EXPECT_TRUE(pool->try_allocate(page, other)) << "there is more memory";
  EXPECT_EQ(pool->pool_stats().grown, 2U);
  EXPECT_EQ(test::take_reports().size(), 1U) << "that it is lost";
  first->finish(1);
}

// The stream is lost that was to use the memory next, while it waits for the one that uses it.
TEST_F(TakenMeanwhile, NotFromAStreamThatWaitedForItAndIsLost) {
  const PoolPtr full = make_pool(make_resource(host_device()), {.limit = pages * page,
                                                                .segment_bytes = pages * page,
                                                                .reuse = ReusePolicy::wait_rather_than_grow,
                                                                .patience = {}});
  auto* const second = new test::FakeStream;
  const Stream other(spi::Ref<spi::StreamState>::adopt(second)), third(host_device());
  close_while_working(full, *stream, *first);
  Buffer taken = full->allocate(pages * page, other);
  EXPECT_EQ(full->pool_stats().waits, 1U);
  second->lose_by_hand();
  second->finish(1);  // it has no work of its own
  taken.close();
  EXPECT_FALSE(full->try_allocate(pages * page, third).has_value()) << "the first still uses it";
  first->finish(1);
  while (!full->try_allocate(pages * page, third)) std::this_thread::yield();  // until its worker has seen that
  EXPECT_EQ(test::take_reports().size(), 1U) << "that it is lost";
}

// The driver does not have the work yet, and nothing is held back for a stream on which others put work.
TEST_F(TakenMeanwhile, NotByAnApplicationsStreamFromOneThatIsHeldBack) {
  auto* const gate = new test::FakeStream;
  const Stream opened(spi::Ref<spi::StreamState>::adopt(gate));
  gate->put(test::FakeStream::fill());
  auto* const applications = new test::FakeStream;
  applications->behaviour.foreign = applications->behaviour.waits_natively = true;
  const Stream other(spi::Ref<spi::StreamState>::adopt(applications));
  Buffer held = pool->allocate(pages * page, *stream);
  first->put(gate->wait_op(1));
  held.close();
  const Buffer more = pool->allocate(pages * page, other);  // the watchdog ends it if this waits
  EXPECT_EQ(pool->pool_stats().waits, 0U);
  EXPECT_EQ(pool->pool_stats().grown, 2U);
  gate->finish(1);
  EXPECT_TRUE(first->wait_submitted(1));
  const Buffer taken = pool->allocate(pages * page, other);
  EXPECT_EQ(pool->pool_stats().waits, 1U);
  EXPECT_EQ(pool->pool_stats().grown, 2U);
  first->finish(1);
  applications->finish(100);
}

// Then its work cannot be marked.
TEST(TakenMeanwhileFrom, AStreamThatIsCaptured) {
  bool captured = true;
  auto *const applications = new test::FakeStream, *const waiting = new test::FakeStream;
  applications->behaviour.foreign = true;
  applications->behaviour.on_mark = [&] {
    if (captured) throw Error(Errc::unsupported, "captured");
  };
  waiting->behaviour.waits_natively = true;
  const PoolPtr pool = growing_pool();
  const Stream stream(spi::Ref<spi::StreamState>::adopt(applications));
  const Stream other(spi::Ref<spi::StreamState>::adopt(waiting));
  close_while_working(pool, stream, *applications);
  const Buffer more = pool->allocate(pages * page, other);
  EXPECT_EQ(pool->pool_stats().waits, 0U);
  EXPECT_EQ(pool->pool_stats().grown, 2U);
  pool->set_limit(2 * pages * page);
  EXPECT_FALSE(pool->try_allocate(pages * page, other).has_value()) << "no error, either";
  captured = false;
  EXPECT_TRUE(pool->try_allocate(pages * page, other).has_value());
  EXPECT_EQ(pool->pool_stats().waits, 1U);
  applications->finish(100);
  waiting->finish(100);
}

/// Wait for the work of `stream`. Return whether the stream is lost.
bool ends_lost(const Stream& stream) {
  try {
    stream.synchronize();
    return false;
  } catch (const Error&) {
    return true;
  }
}

struct Outcome {
  bool asked_enough;
  std::size_t lost;  ///< streams: the first, and the other where it had been told to wait for the first
};

// Whenever it is asked how far it is.
Outcome lose_at(int question) {
  const auto asked = std::make_shared<int>(0);
  auto* const first = new test::FakeStream;
  first->behaviour.on_poll = [=, asking = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == asking && ++*asked == question) first->lose_by_hand();
  };
  const Stream stream(spi::Ref<spi::StreamState>::adopt(first)), other(host_device());
  const PoolPtr pool = growing_pool();
  close_while_working(pool, stream, *first);
  EXPECT_NO_THROW((void)pool->allocate(page, other)) << "lost when it was asked " << question << " times";
  const bool asked_enough = *asked >= question;
  first->finish(1);
  return {asked_enough, std::size_t{asked_enough} + std::size_t{ends_lost(other)}};
}

TEST(TakenMeanwhileFrom, AStreamThatIsLost) {
  std::size_t lost = 0;
  int question = 1;
  for (Outcome outcome = lose_at(question); outcome.asked_enough; outcome = lose_at(++question)) lost += outcome.lost;
  EXPECT_GT(question, 2);
  EXPECT_EQ(test::await_reports(lost).size(), lost) << "that they are lost";
}

}  // namespace
}  // namespace weir::pool
