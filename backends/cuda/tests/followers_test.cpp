// SPDX-License-Identifier: Apache-2.0
// How many streams of weir wait on the device for a peer. Eight that wait on a GPU stall all others, and the peer may need
// those.
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "cuda/device.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "late_peer.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "weir/host.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t most = 3;  // and four words for which an application's streams may wait

class Followers : public BehindALatePeer {
 protected:
  void SetUp() override {
    BehindALatePeer::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (int i = 0; i < 16; ++i) {
      followers_.emplace_back(gpu());
      others_.emplace_back(gpu());
    }
    memory_ = cuda::make_device_resource(gpu())->allocate(32, others_.front());
    others_.front().synchronize();
    before_ = waits();
  }
  void TearDown() override {
    BehindALatePeer::TearDown();
    if (others_.empty()) return;  // there is no GPU
    for (const Stream& each : followers_) EXPECT_NO_THROW(each.synchronize());
    EXPECT_EQ(count(), 0U);
  }
  void follow(const Event& point) {
    for (std::size_t i = 0; i < followers_.size(); ++i) {
      followers_[i].wait(point);
      memory_.fill(std::byte{1}, i, 1, followers_[i]);
    }
  }
  static std::size_t count() { return cuda::gpu_of(gpu().state()).followers(); }
  /// How often the driver was told to let a stream wait; 0 if it does not count.
  static std::size_t waits() {
    const auto calls = reinterpret_cast<std::size_t (*)(const char*)>(test::find_in_model("fake_cuda_calls"));
    return calls ? calls("cuStreamWaitEvent") : 0;
  }
  void expect_waits(std::size_t number) const {
    if (waits() == 0) return;
    EXPECT_EQ(waits(), before_ + number);
  }

  std::size_t before_ = 0;
  std::vector<Stream> followers_, others_;
  Buffer memory_;
};

TEST_F(Followers, AreFewAtATime) {
  follow(late_->record());
  EXPECT_EQ(count(), most);
  expect_waits(most);
  peer_.gate.open();
  for (const Stream& each : followers_) each.synchronize();
  EXPECT_EQ(count(), 0U);
  before_ = waits();  // those that were held back may have waited on the device when nobody was late any more
  LatePeer next;
  next.lend();
  const Buffer got = next.borrower.receive(*late_).buffer;
  followers_.back().wait(late_->record());
  EXPECT_EQ(count(), 1U);
  expect_waits(1);
  next.gate.open();
}

TEST_F(Followers, LetOthersWork) {
  follow(late_->record());
  std::vector<Event> done;
  for (std::size_t i = 0; i < others_.size(); ++i) {
    memory_.fill(std::byte{2}, 16 + i, 1, others_[i]);
    done.push_back(others_[i].record());
  }
  const auto is_done = [](const Event& each) { return each.done(); };
  while (std::none_of(done.begin(), done.end(), is_done)) std::this_thread::yield();  // the watchdog ends it
}

TEST_F(Followers, AreLostTogether) {
  follow(late_->record());
  std::vector<Event> events{late_->record()};
  for (const Stream& each : followers_) events.push_back(each.record());
  expect_lost(events);
  followers_.clear();
}

// By then it waits for the peer, and nobody knew it when they began to wait for it.
TEST_F(Followers, OfAStreamThatWasHeldBackItself) {
  test::Gate gate;
  const Stream host(host_device()), leader(gpu());
  gate.hold(host);
  leader.wait(host.record());
  leader.wait(late_->record());
  follow(leader.record());
  gate.open();
  const std::size_t wanted = waits() == 0 ? 0 : before_ + most;
  while (count() != most || waits() < wanted) std::this_thread::yield();  // the watchdog ends it
  std::this_thread::sleep_for(20ms);                                      // long enough for those that would wait, too
  EXPECT_EQ(count(), most);
  expect_waits(most);
  peer_.gate.open();
  leader.synchronize();
}

// It has no bytes of the peer, so it is not lost with it, but it waits all the same.
TEST_F(Followers, OfAStreamThatGotMemoryOfTheLateOne) {
  const NativeStream native;
  const Stream taker = cuda::borrow(gpu(), native.get());
  const Buffer next = take_memory_of_the_late_one(taker);
  follow(taker.record());
  EXPECT_EQ(count(), most);
  expect_waits(most + 1);
  const Event reached = taker.record();
  expect_lost({late_->record()});
  EXPECT_EQ(reached.wait(10s), WaitStatus::ready);
}

// It stays among them until its own work is done, whatever ends before.
TEST_F(Followers, CountOnceHoweverManyTheyFollow) {
  LatePeer next;
  const NativeStream native;
  const Stream other = cuda::borrow(gpu(), native.get());
  next.lend();
  const Buffer got = next.borrower.receive(other).buffer;
  followers_.front().wait(late_->record());
  followers_.front().wait(other.record());
  EXPECT_EQ(count(), 1U);
  peer_.gate.open();
  late_->synchronize();
  EXPECT_EQ(count(), 1U);
  next.gate.open();
  followers_.front().synchronize();
  EXPECT_EQ(count(), 0U);
}

TEST_F(Followers, ThatTheDriverRefusesAreNotCounted) {
  const auto fail = reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"));
  if (!fail) GTEST_SKIP() << "real drivers do not fail on demand";
  fail("cuStreamWaitEvent", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_ERROR(followers_.front().wait(late_->record()), Errc::out_of_memory, "cuStreamWaitEvent");
  EXPECT_EQ(count(), 0U);
}

// A stream that others use cannot be held back.
TEST_F(Followers, ThatAreHeldBackLetTheCallerWaitWhoJoinsThem) {
  for (std::size_t i = 0; i < most; ++i) {
    followers_[i].wait(late_->record());
    late_->wait(followers_[i].record());
  }
  followers_[most].wait(late_->record());
  {
    const test::Thread joins([&] { late_->wait(followers_[most].record()); });
    peer_.gate.open();
  }
  EXPECT_NO_THROW(late_->synchronize());
}

}  // namespace
}  // namespace weir::cuda_test
