// SPDX-License-Identifier: Apache-2.0
// An application's stream whose last use ends on a thread of the library, which may not ask it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "base/library_thread.hpp"
#include "sink.hpp"
#include "stream/fake_stream.hpp"
#include "weir/buffer.hpp"
#include "weir/pool.hpp"
#include "weir/spi/block.hpp"

namespace weir {
namespace {

class ForgottenStream : public testing::Test {
 protected:
  ForgottenStream() {
    fake->behaviour.foreign = true;
    stream.emplace(spi::Ref<spi::StreamState>::adopt(fake));
  }
  ~ForgottenStream() override { fake->finish_unasked(100); }

  [[nodiscard]] std::size_t marks() const {
    const auto log = fake->log();
    return static_cast<std::size_t>(
        std::count_if(log.begin(), log.end(), [](const std::string& line) { return line.starts_with("mark"); }));
  }
  static void close_on_own_thread(Buffer& buffer) {
    const detail::LibraryThread mark;
    buffer.close();
  }

  test::FakeStream* fake = new test::FakeStream;
  const spi::Kept kept{*fake};
  std::optional<Stream> stream;
  const Stream other{host_device()};
  const PoolPtr pool =
      make_pool(make_resource(host_device()),
                {.limit = 4096, .segment_bytes = 4096, .reuse = ReusePolicy::passed_only, .patience = {}});
};

TEST_F(ForgottenStream, IsMarkedWhenItIsForgottenAndNotWhenItEnds) {
  Buffer buffer = pool->allocate(2048, *stream);
  stream.reset();
  EXPECT_EQ(marks(), 1U);
  fake->finish(100);
  close_on_own_thread(buffer);
  EXPECT_TRUE(fake->closed());
  EXPECT_EQ(marks(), 1U) << "a thread of the library asks nothing";
  EXPECT_TRUE(pool->try_allocate(4096, other).has_value());
}

// It was lost by an operation that was held back and then refused, while it was given out.
TEST_F(ForgottenStream, ThatWasLostUnmarkedSaysThatNobodyCanTell) {
  test::FakeStream* const gate = new test::FakeStream;
  const Stream owner(spi::Ref<spi::StreamState>::adopt(gate));
  gate->put(test::FakeStream::fill());
  fake->behaviour.foreign = false;
  fake->put(test::FakeStream::fill());
  fake->put(gate->wait_op(1));
  fake->put(test::FakeStream::fill());
  fake->behaviour.foreign = true;
  fake->refuse_next();
  gate->finish(1);
  while (!fake->lost()) std::this_thread::yield();
  EXPECT_EQ(test::await_reports(1).size(), 1U);
  stream.reset();
  bool refused = false;
  EXPECT_FALSE(fake->finished(1, refused));
  EXPECT_TRUE(refused);
}

// It was lost and said so, but that its memory stays is news.
TEST_F(ForgottenStream, ThatIsLostSaysSoWhenItEndsUnmarked) {
  Buffer buffer = pool->allocate(2048, *stream);
  fake->put(test::FakeStream::fill());
  fake->become_unready();
  EXPECT_EQ(test::take_reports().size(), 1U);
  fake->behaviour.on_mark = [] { throw Error(Errc::unsupported, "captured"); };
  stream.reset();
  close_on_own_thread(buffer);
  EXPECT_TRUE(fake->closed());
  const auto reports = test::take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("never free"), std::string::npos) << reports[0].message;
}

TEST_F(ForgottenStream, IsMarkedAgainByWhoeverGivesMemoryBack) {
  Buffer leased = pool->allocate(2048, *stream), buffer = pool->allocate(2048, *stream);
  stream.reset();
  fake->finish(1);
  buffer.close();
  EXPECT_EQ(marks(), 2U) << "others may have used it natively";
  close_on_own_thread(leased);
  EXPECT_FALSE(pool->try_allocate(4096, other).has_value()) << "the second mark has not passed";
  fake->finish(100);
  while (!pool->try_allocate(4096, other)) std::this_thread::yield();  // until the library's thread has seen that
}

// The mark is refused, as when the application captures the stream, and nobody may ask for another.
TEST_F(ForgottenStream, IsLostAloudWhenItsLastPointCannotBeRecorded) {
  Buffer buffer = pool->allocate(2048, *stream);
  fake->refuse_next();
  stream.reset();
  EXPECT_EQ(marks(), 0U);
  EXPECT_FALSE(fake->lost()) << "whoever borrows it again may mark it";
  fake->finish(100);
  close_on_own_thread(buffer);
  EXPECT_EQ(marks(), 0U);
  EXPECT_TRUE(fake->lost());
  const auto reports = test::take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("could not be recorded"), std::string::npos) << reports[0].message;
  EXPECT_FALSE(pool->try_allocate(4096, other).has_value()) << "what it was used for last may still run";
  EXPECT_EQ(pool->trim(0), 0U) << "nor does anybody wait for that";
}

// Others than a pool do not say that they have memory of a stream.
TEST_F(ForgottenStream, IsMarkedForMemoryOfAnyResource) {
  const auto plain = make_resource(host_device());
  Buffer buffer = plain->allocate(2048, *stream);
  fake->put(test::FakeStream::fill());
  stream.reset();
  EXPECT_EQ(marks(), 1U);
  close_on_own_thread(buffer);
  EXPECT_FALSE(fake->lost());
  EXPECT_EQ(plain->stats().reserved, 2048U);
  fake->finish(100);
  EXPECT_EQ(plain->trim(0), 2048U);
}

// Whoever holds memory that was used there may wait for that use.
TEST_F(ForgottenStream, IsWaitedForByOwnersOfWhatItUsed) {
  const Buffer buffer = make_resource(host_device())->allocate(64, other);
  auto* const follower = new test::FakeStream;
  follower->behaviour.waits_natively = true;
  const Stream following(spi::Ref<spi::StreamState>::adopt(follower)), host(host_device());
  buffer.block()->used(*fake, fake->put(test::FakeStream::fill()));
  fake->refuse_next();
  stream.reset();
  EXPECT_EQ(marks(), 0U);
  buffer.order_after_uses(host);
  EXPECT_EQ(marks(), 1U);
  buffer.order_after_uses(following);
  EXPECT_EQ(follower->log().front(), "wait 1");
  EXPECT_EQ(host.synchronize(std::chrono::nanoseconds{0}), WaitStatus::timeout);
  fake->finish(100);
  host.synchronize();
}

// The last name ends on a thread of the library, as in what a release function owns, and so does the last owner.
TEST_F(ForgottenStream, IsMarkedByEachOwnerOfWhatItUsed) {
  Buffer buffer = pool->allocate(2048, other), last = buffer.share();
  buffer.block()->used(*fake, fake->put(test::FakeStream::fill()));
  buffer.close();
  EXPECT_EQ(marks(), 1U);
  {
    const detail::LibraryThread mark;
    stream.reset();
  }
  close_on_own_thread(last);
  ASSERT_FALSE(fake->lost());
  fake->finish(100);
  while (!pool->try_allocate(4096, other)) std::this_thread::yield();
}

TEST_F(ForgottenStream, KeepsMemoryForWorkThatGoesOnWhenItIsLost) {
  Buffer buffer = pool->allocate(2048, *stream), later = pool->allocate(2048, *stream);
  fake->put(test::FakeStream::fill());
  fake->become_unready();
  stream.reset();
  EXPECT_EQ(marks(), 1U);
  buffer.close();
  EXPECT_EQ(marks(), 2U) << "others may have used it natively";
  EXPECT_FALSE(pool->try_allocate(2048, other)) << "the device goes on";
  close_on_own_thread(later);
  fake->finish(1);
  EXPECT_FALSE(pool->try_allocate(2048, other));
  fake->finish(100);
  while (!pool->try_allocate(4096, other)) std::this_thread::yield();
  EXPECT_EQ(test::take_reports().size(), 1U);
}

// The device is gone that went on: nothing runs any more, whatever could not be marked.
TEST_F(ForgottenStream, FreesMemoryWhenTheDeviceThatWentOnIsGone) {
  Buffer buffer = pool->allocate(2048, *stream);
  fake->put(test::FakeStream::fill());
  fake->become_unready();
  fake->behaviour.on_mark = [] { throw Error(Errc::device_lost, "gone by hand"); };
  stream.reset();
  buffer.close();
  EXPECT_TRUE(fake->closed());
  EXPECT_TRUE(pool->try_allocate(4096, other));
  EXPECT_EQ(test::take_reports().size(), 1U);
}

TEST_F(ForgottenStream, KeepsNobodyWhenItsLastPointCouldNotBeRecorded) {
  const auto plain = make_resource(host_device());
  Buffer buffer = plain->allocate(2048, *stream);
  fake->put(test::FakeStream::fill());
  fake->refuse_next();
  stream.reset();
  close_on_own_thread(buffer);
  EXPECT_TRUE(fake->lost());
  EXPECT_EQ(test::take_reports().size(), 1U);
  EXPECT_EQ(plain->trim(0), 0U) << "nobody waits";
  EXPECT_GE(plain->stats().reserved, 2048U) << "and nobody knows when it may go";
}

TEST_F(ForgottenStream, GetsThatMarkFromWhoeverGivesTheLastMemoryBack) {
  Buffer buffer = pool->allocate(2048, *stream);
  fake->refuse_next();
  stream.reset();
  fake->finish(100);
  buffer.close();
  EXPECT_EQ(marks(), 1U);
  EXPECT_FALSE(fake->lost());
  EXPECT_TRUE(pool->try_allocate(4096, other).has_value());
}

TEST_F(ForgottenStream, GetsThatMarkFromWhoeverBorrowsItAgain) {
  Buffer buffer = pool->allocate(2048, *stream);
  fake->refuse_next();
  stream.reset();
  ASSERT_TRUE(fake->try_retain());
  fake->release();
  EXPECT_EQ(marks(), 1U);
  fake->finish(100);
  close_on_own_thread(buffer);
  EXPECT_FALSE(fake->lost());
  EXPECT_TRUE(pool->try_allocate(4096, other).has_value());
}

// Nobody waits for what was put there last, so nobody tries again to mark it. The pool lets the timeline go all the
// same.
TEST_F(ForgottenStream, IsOverWhenWhatSomebodyWaitsForIs) {
  std::atomic<bool> ended = false;
  auto* const user = new test::FakeStream;
  user->behaviour.foreign = true;
  user->behaviour.on_end = [&] { ended = true; };
  std::optional<Stream> named{spi::Ref<spi::StreamState>::adopt(user)};
  Buffer buffer = pool->allocate(4096, other);
  buffer.use_on(*named);
  user->put(test::FakeStream::fill());
  user->refuse_next();
  named.reset();
  EXPECT_EQ(user->log().back(), "fill 2") << "it is not marked";
  buffer.close();
  EXPECT_TRUE(user->closed());
  EXPECT_FALSE(pool->try_allocate(4096, other).has_value());
  EXPECT_FALSE(ended);
  EXPECT_EQ(user->log().back(), "fill 2");
  user->finish(1);
  while (!ended) {
    (void)pool->try_allocate(4096, other);
    std::this_thread::yield();
  }
}

TEST_F(ForgottenStream, IsNotAskedByThoseWhoLookOrWait) {
  const Buffer buffer = pool->allocate(2048, *stream);
  fake->refuse_next();
  stream.reset();
  const auto unmarked = fake->issued();
  EXPECT_FALSE(fake->reached(unmarked));
  EXPECT_THROW((void)fake->wait_for(unmarked, std::chrono::nanoseconds{0}), Error);
  (void)pool->try_allocate(4096, other);
  EXPECT_EQ(marks(), 0U);
  EXPECT_FALSE(fake->lost());
}

}  // namespace
}  // namespace weir
