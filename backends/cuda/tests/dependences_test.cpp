// SPDX-License-Identifier: Apache-2.0
// Streams that wait on the device for streams whose work waits for a peer.
#include <algorithm>
#include <chrono>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "cuda/stream.hpp"
#include "expect.hpp"
#include "late_peer.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "on_report.hpp"
#include "sink.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;

class Dependences : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    late_ = cuda::borrow(gpu(), native_.emplace().get());
    peer_.lend();
    got_ = peer_.borrower.receive(*late_).buffer;
  }
  void TearDown() override {
    peer_.gate.open();
    got_.close();
    late_.reset();
  }
  /// Of which each stream is lost, and its peer's point, and nothing else.
  void expect_lost(const std::vector<Event>& events) {
    const std::size_t lost = events.size() + 1;
    peer_.die();
    for (const Event& each : events) {
      EXPECT_EQ(each.wait(10s), WaitStatus::lost);
      EXPECT_FALSE(each.done());
    }
    EXPECT_EQ(test::await_reports(lost).size(), lost);
  }

  static bool exist(const Stream& stream) { return static_cast<cuda::GpuStream&>(stream.state()).dependences().any(); }

  std::optional<NativeStream> native_;
  LatePeer peer_;
  std::optional<Stream> late_;
  Buffer got_;
};

TEST_F(Dependences, LetACallerForkAndJoinWhileThePeerIsLate) {
  const Stream own(gpu());
  own.wait(late_->record());
  late_->wait(own.record());
  const Event joined = late_->record();
  EXPECT_EQ(joined.wait(2ms), WaitStatus::timeout);
  peer_.gate.open();
  joined.wait();
  EXPECT_NO_THROW(own.synchronize());
}

TEST_F(Dependences, AreLostTogether) {
  const NativeStream native;
  const Stream own(gpu()), borrowed = cuda::borrow(gpu(), native.get()), last(gpu());
  own.wait(late_->record());
  borrowed.wait(own.record());
  for (int i = 0; i < 2; ++i) last.wait(borrowed.record());
  expect_lost({late_->record(), own.record(), borrowed.record(), last.record()});
}

TEST_F(Dependences, AreOfWhatComesLaterOnly) {
  const NativeStream native;
  const Stream earlier = cuda::borrow(gpu(), native.get()), later(gpu()), after_earlier(gpu());
  LatePeer lives;
  lives.lend();
  const Buffer got = lives.borrower.receive(earlier).buffer;
  const Event early = earlier.record();
  later.wait(late_->record());
  earlier.wait(later.record());
  after_earlier.wait(early);
  const Event point = after_earlier.record();
  expect_lost({late_->record(), later.record(), earlier.record()});
  EXPECT_EQ(point.wait(2ms), WaitStatus::timeout);
  lives.gate.open();
  EXPECT_NO_THROW(after_earlier.synchronize());
}

TEST_F(Dependences, EndWhenThePeerHasDoneItsWork) {
  const Stream own(gpu());
  own.wait(late_->record());
  EXPECT_TRUE(exist(*late_) && exist(own));
  peer_.gate.open();
  own.synchronize();
  late_->synchronize();
  EXPECT_FALSE(exist(*late_) || exist(own));
  peer_.die();
  std::this_thread::sleep_for(20ms);  // long enough for what would lose them
  EXPECT_NO_THROW(late_->synchronize());
  EXPECT_NO_THROW(own.synchronize());
}

// What becomes of the peer is nothing to a stream whose driver refused to wait.
TEST_F(Dependences, AreNotOfWhomTheDriverRefused) {
  const Current current(primary());
  const NativeStream captured;
  const Stream refused = cuda::borrow(gpu(), captured.get());
  CUgraph graph = nullptr;
  const Event point = late_->record();
  ASSERT_CU(api().StreamBeginCapture(captured.get(), CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_ERROR(refused.wait(point), Errc::unsupported, "captured");
  ASSERT_CU(api().StreamEndCapture(captured.get(), &graph));
  EXPECT_CU(api().GraphDestroy(graph));
  expect_lost({point});
  std::this_thread::sleep_for(20ms);  // long enough for what would lose the other one
  EXPECT_NO_THROW(refused.synchronize());
}

// A stream that gets memory of another one needs none of its bytes.
TEST_F(Dependences, DoNotComeWithMemory) {
  const PoolPtr pool = make_pool(cuda::make_device_resource(gpu()),
                                 {.limit = 4 << 20, .segment_bytes = 4 << 20, .patience = std::chrono::nanoseconds{0}});
  const Stream own(gpu());
  Buffer used = pool->allocate(4 << 20, *late_);
  used.fill(std::byte{1}, *late_);
  used.close();
  const Buffer next = pool->allocate(4 << 20, own);
  EXPECT_EQ(pool->pool_stats().waits, 1U);
  const Event reached = own.record();
  EXPECT_EQ(reached.wait(2ms), WaitStatus::timeout);
  expect_lost({late_->record()});
  EXPECT_NO_THROW(own.synchronize());
}

// There are fewer words and host functions to wait for than streams.
TEST_F(Dependences, OfManyStreamsTakeNoHostFunction) {
  std::list<NativeStream> natives;
  std::vector<Stream> followers;
  bool called = false;
  late_->call([&] { called = true; });
  const Event point = late_->record();
  for (int i = 0; i < 8; ++i) {
    followers.push_back(cuda::borrow(gpu(), natives.emplace_back().get()));
    followers.back().wait(point);
  }
  peer_.gate.open();
  for (const Stream& each : followers) each.synchronize();
  EXPECT_TRUE(called);
}

// Eight streams that wait on a GPU stall all others, and the peer may need those.
class DependencesOfMany : public Dependences {
 protected:
  void SetUp() override {
    Dependences::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (int i = 0; i < 16; ++i) {
      followers_.emplace_back(gpu());
      others_.emplace_back(gpu());
    }
    memory_ = cuda::make_device_resource(gpu())->allocate(32, others_.front());
    others_.front().synchronize();
    before_ = waits();
    for (std::size_t i = 0; i < followers_.size(); ++i) {
      followers_[i].wait(late_->record());
      memory_.fill(std::byte{1}, i, 1, followers_[i]);
    }
  }
  void TearDown() override {
    Dependences::TearDown();
    for (const Stream& each : followers_) EXPECT_NO_THROW(each.synchronize());
  }
  /// How often the driver was told to let a stream wait; 0 if it does not count.
  static std::size_t waits() {
    const auto calls = reinterpret_cast<std::size_t (*)(const char*)>(test::find_in_model("fake_cuda_calls"));
    return calls ? calls("cuStreamWaitEvent") : 0;
  }

  std::size_t before_ = 0;
  std::vector<Stream> followers_, others_;
  Buffer memory_;
};

TEST_F(DependencesOfMany, LetAFewWaitOnTheDeviceAtATime) {
  if (waits() == 0) GTEST_SKIP() << "real drivers do not count their calls";
  EXPECT_EQ(waits(), before_ + 3);
  peer_.gate.open();
  for (const Stream& each : followers_) each.synchronize();
  LatePeer next;
  next.lend();
  const Buffer got = next.borrower.receive(*late_).buffer;
  followers_.back().wait(late_->record());
  EXPECT_EQ(waits(), before_ + 4);
  next.gate.open();
}

TEST_F(DependencesOfMany, LetOthersWork) {
  std::vector<Event> done;
  for (std::size_t i = 0; i < others_.size(); ++i) {
    memory_.fill(std::byte{2}, 16 + i, 1, others_[i]);
    done.push_back(others_[i].record());
  }
  const auto is_done = [](const Event& each) { return each.done(); };
  while (std::none_of(done.begin(), done.end(), is_done)) std::this_thread::yield();  // the watchdog ends it
}

TEST_F(DependencesOfMany, LoseThemTogether) {
  std::vector<Event> events{late_->record()};
  for (const Stream& each : followers_) events.push_back(each.record());
  expect_lost(events);
  followers_.clear();
}

TEST_F(Dependences, AreReportedOnceTheDeviceGoesOn) {
  const Event point = late_->record();
  const test::OnReport taken([&] {
    const Current current(primary());
    EXPECT_CU(api().StreamSynchronize(native_->get()));
  });
  peer_.die();
  EXPECT_EQ(point.wait(10s), WaitStatus::lost);
  while (taken.count() == 0) std::this_thread::yield();  // the watchdog ends it
}

}  // namespace
}  // namespace weir::cuda_test
