// SPDX-License-Identifier: Apache-2.0
// Streams that wait on the device for streams whose work waits for a peer.
#include <chrono>
#include <future>
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

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;

class Dependences : public BehindALatePeer {
 protected:
  static bool exist(const Stream& stream) { return static_cast<cuda::GpuStream&>(stream.state()).dependences().any(); }
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
  const Stream own(gpu());
  const Buffer next = take_memory_of_the_late_one(own);
  const Event reached = own.record();
  EXPECT_EQ(reached.wait(2ms), WaitStatus::timeout);
  expect_lost({late_->record()});
  EXPECT_NO_THROW(own.synchronize());
}

// It got memory of the late stream first and needs its bytes, too. Others are lost in between, which takes time.
TEST_F(Dependences, EndWithMemoryOnlyOnceTheStreamIsLost) {
  std::list<NativeStream> natives;
  std::vector<Stream> between;
  for (int i = 0; i < 100; ++i) between.push_back(cuda::borrow(gpu(), natives.emplace_back().get()));
  const Stream own(gpu());
  const Buffer next = take_memory_of_the_late_one(own);
  const Event point = late_->record();
  std::vector<Event> lost{point};
  for (const Stream& each : between) {
    each.wait(point);
    lost.push_back(each.record());
  }
  own.wait(point);
  lost.push_back(own.record());
  auto watching = std::async(std::launch::async, [&] {
    while (exist(own)) {
    }
    return own.state().lost();
  });
  expect_lost(lost);
  EXPECT_TRUE(watching.get());
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

// The device is asked while the peer is late.
TEST_F(Dependences, EndWithTheDevice) {
  const auto fault = reinterpret_cast<void (*)(int, int)>(test::find_in_model("fake_cuda_fault"));
  const auto mend = reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"));
  if (!fault || !mend) GTEST_SKIP() << "a real device faults in FaultOfAKernel, and not with a chosen error";
  const Stream own(gpu());
  own.wait(late_->record());
  auto waiting = std::async(std::launch::async, [reached = own.record()] { return reached.wait(-1ms); });
  std::this_thread::sleep_for(20ms);  // long enough to begin to wait
  fault(0, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(waiting.get(), WaitStatus::lost);
  mend("", 0, 0);
  EXPECT_GE(test::await_reports(1).size(), 1U);
}

TEST_F(Dependences, AreReportedOnceTheDeviceGoesOn) {
  const Event point = late_->record();
  const test::OnReport taken([&] {
    const Current current(primary());
    EXPECT_CU(api().StreamSynchronize(native_->get()));
  });
  peer_.die();
  EXPECT_EQ(point.wait(10s), WaitStatus::lost);
  while (taken.count() < 2) std::this_thread::yield();  // of the peer's point and of the stream; the watchdog ends it
}

}  // namespace
}  // namespace weir::cuda_test
