// SPDX-License-Identifier: Apache-2.0
// Points of the device's streams that peers wait for: the device writes them into shared memory of the host.
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "alone.hpp"
#include "expect.hpp"
#include "ipc/ready_point.hpp"
#include "late_peer.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "on_report.hpp"
#include "sink.hpp"
#include "weir/channel.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;
using ipc::Channel;

class Points : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const KindInfo* vmm = gpu().find(MemoryKind::vmm);
    if (!vmm || !vmm->exportable) GTEST_SKIP() << "this device exports no memory";
    buffer_ = cuda::make_vmm_resource(gpu(), {.exportable = true})->allocate(4096, Stream(gpu()));
  }
  /// What the peer gets that `stream` sends now, and when its stream may touch that.
  std::pair<Buffer, Event> hand_over(const Stream& stream) {
    here_.send(buffer_, stream);
    const Stream waiting(host_device());
    Buffer received = there_.receive(waiting).buffer;
    return {std::move(received), waiting.record()};
  }
  /// Let `stream` wait for a peer that ends before its work does, lend behind that, and let others wait for it.
  void pass_on_what_never_came(const Stream& stream, const std::vector<Stream>& others) {
    LatePeer peer;
    peer.lend();
    const Buffer got = peer.borrower.receive(stream).buffer;
    const auto [received, ready] = hand_over(stream);
    std::vector ends{stream.record()};
    for (const Stream& other : others) {
      other.wait(ends.front());
      ends.push_back(other.record());
    }
    EXPECT_EQ(ready.wait(2ms), WaitStatus::timeout);
    peer.die();
    EXPECT_EQ(ready.wait(10s), WaitStatus::lost) << "the bytes are not those that the peer meant";
    for (const Event& each : ends) {
      EXPECT_EQ(each.wait(10s), WaitStatus::lost);
      EXPECT_FALSE(each.done());
    }
    const std::size_t lost = ends.size() + 3;  // the two points, and what waited for the later one
    EXPECT_EQ(test::await_reports(lost).size(), lost);
  }
  /// Lend behind work of a stream that is named no more before it is done.
  void lend_and_leave() {
    const NativeStream native;
    const auto owner = std::make_shared<int>();
    Busy busy(native.get());
    (void)hand_over(cuda::borrow(gpu(), native.get(), owner));
    busy.release();
    while (owner.use_count() != 1) std::this_thread::yield();  // the watchdog ends it
  }
  static std::size_t host_functions() {
    const auto calls = test::find_in_model("fake_cuda_calls");
    return calls ? reinterpret_cast<std::size_t (*)(const char*)>(calls)("cuLaunchHostFunc") : 0;
  }

  std::pair<spi::UniqueFd, spi::UniqueFd> sockets_ = Channel::make_sockets();
  Channel here_{std::move(sockets_.first)}, there_{std::move(sockets_.second)};
  Buffer buffer_;
};

TEST_F(Points, AreReachedBehindTheWork) {
  const auto before = host_functions();
  const Stream stream(gpu());
  for (int round = 0; round < 20; ++round) {
    Busy busy(cuda::native(stream));
    const auto [received, ready] = hand_over(stream);
    EXPECT_EQ(ready.wait(2ms), WaitStatus::timeout);
    busy.release();
    ready.wait();
  }
  EXPECT_EQ(host_functions(), before) << "the device itself writes them";
}

TEST_F(Points, OfStreamsOfTheApplication) {
  NativeStream native;
  const Stream stream = cuda::borrow(gpu(), native.get());
  Busy busy(native.get());
  const auto [received, ready] = hand_over(stream);
  EXPECT_EQ(ready.wait(2ms), WaitStatus::timeout);
  busy.release();
  ready.wait();
}

// The device cannot be kept from work that stands on its stream, and that work ends as any other.
TEST_F(Points, AreNotBelievedBehindWhatNeverCame) {
  const NativeStream native, other_native;
  const Stream own(gpu()), given_out(gpu());
  (void)cuda::native(given_out);
  pass_on_what_never_came(cuda::borrow(gpu(), native.get()), {Stream(gpu())});
  pass_on_what_never_came(given_out, {Stream(gpu()), cuda::borrow(gpu(), other_native.get())});
  pass_on_what_never_came(own, {Stream(gpu())});
}

TEST_F(Points, LetStreamsGoThatNobodyNames) { lend_and_leave(); }

// All that is left of the stream is the point of a descriptor, which is no use of memory. Nobody listens any more, and
// the driver's thread, which says that the point is reached, may not block SIGPIPE. A thread of the library that looks
// before the stream loses its last name would mark it, too.
TEST_F(Points, LetStreamsGoThatHaveNothingButAPromise) {
  const auto owner = std::make_shared<int>();
  for (int round = 0; round < 16; ++round) {
    const NativeStream native;
    Busy busy(native.get());
    (void)weir::detail::send_ready(cuda::borrow(gpu(), native.get(), owner));
    busy.release();
    while (owner.use_count() != 1) std::this_thread::yield();  // the watchdog ends it
  }
}

TEST_F(Points, OfAnotherContext) {
  const OtherContext other;
  NativeStream native(other.get());
  const Stream stream = cuda::borrow(gpu(), native.get());
  const auto [received, ready] = hand_over(stream);
  ready.wait();
  stream.synchronize();
}

TEST_F(Points, OfEveryDevice) {
  for (const Device& device : devices()) {
    if (device.backend() != "cuda") continue;
    const Stream stream(device);
    buffer_ = cuda::make_vmm_resource(device, {.exportable = true})->allocate(4096, stream);
    buffer_.fill(std::byte{1}, stream);
    const auto [received, ready] = hand_over(stream);
    ready.wait();
  }
}

TEST_F(Points, SpoilNoCapture) {
  const Current current(primary());
  const NativeStream captured;
  const Stream stream(gpu());
  CUgraph graph = nullptr;
  ASSERT_CU(api().StreamBeginCapture(captured.get(), CU_STREAM_CAPTURE_MODE_GLOBAL));
  const auto [received, ready] = hand_over(stream);
  ready.wait();
  ASSERT_CU(api().StreamEndCapture(captured.get(), &graph));
  EXPECT_CU(api().GraphDestroy(graph));
}

// What becomes of the peer is nothing to a stream whose driver refused to wait.
TEST_F(Points, AreLostForWhoeverWaits) {
  const Current current(primary());
  const NativeStream captured;
  const Stream refused = cuda::borrow(gpu(), captured.get()), waiting(gpu());
  LatePeer peer;
  for (int i = 0; i < 2; ++i) peer.lend();
  const Buffer received = peer.borrower.receive(waiting).buffer;
  const Event ready = waiting.record();
  CUgraph graph = nullptr;
  ASSERT_CU(api().StreamBeginCapture(captured.get(), CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_ERROR((void)peer.borrower.receive(refused), Errc::unsupported, "captured");
  ASSERT_CU(api().StreamEndCapture(captured.get(), &graph));
  EXPECT_CU(api().GraphDestroy(graph));
  peer.die();
  EXPECT_EQ(ready.wait(10s), WaitStatus::lost);
  EXPECT_EQ(test::await_reports(3).size(), 3U) << "the two points, and what waited for one of them";
  std::this_thread::sleep_for(20ms);  // long enough for what would lose the other one
  EXPECT_NO_THROW(buffer_.fill(std::byte{1}, refused));
  EXPECT_NO_THROW(refused.synchronize());
}

class DISABLED_AlonePoints : public Points {};  // run by the test below, with an environment

TEST_F(DISABLED_AlonePoints, ByHostFunctions) {
  const auto before = host_functions();
  const Stream stream(gpu());
  Busy busy(cuda::native(stream));
  const auto [received, ready] = hand_over(stream);
  EXPECT_EQ(ready.wait(2ms), WaitStatus::timeout);
  busy.release();
  ready.wait();
  EXPECT_GT(host_functions(), before);
}

TEST_F(DISABLED_AlonePoints, BehindWhatNeverCame) {
  const NativeStream native;
  pass_on_what_never_came(cuda::borrow(gpu(), native.get()), {});
}

TEST_F(DISABLED_AlonePoints, LetStreamsGoThatNobodyNames) { lend_and_leave(); }

TEST_F(DISABLED_AlonePoints, AfterARefusal) {
  reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"))(
      "cuMemHostRegister", 1, CUDA_ERROR_NOT_SUPPORTED);
  const auto before = host_functions();
  const Stream stream(gpu());
  for (int i = 0; i < 2; ++i) {
    Busy busy(cuda::native(stream));
    const auto [received, ready] = hand_over(stream);
    busy.release();
    ready.wait();
  }
  EXPECT_GE(host_functions(), before + 2);
  const auto reports = test::take_reports();
  ASSERT_EQ(reports.size(), 1U) << "the device is asked once";
  EXPECT_NE((reports[0].where + reports[0].message).find("cuMemHostRegister"), std::string::npos) << reports[0].message;
}

TEST_F(DISABLED_AlonePoints, WhoseRefusalTheSinkHears) {
  reinterpret_cast<void (*)(const char*, int, int)>(test::find_in_model("fake_cuda_fail"))("cuMemHostRegister", 1,
                                                                                           CUDA_ERROR_NOT_SUPPORTED);
  const Stream stream(gpu());
  Busy busy(cuda::native(stream));
  const test::OnReport taken([&] { EXPECT_NO_THROW(here_.send(buffer_, stream, {}, 30s)); });
  const auto [received, ready] = hand_over(stream);
  EXPECT_EQ(taken.count(), 1);
  EXPECT_EQ(here_.stats().lent, 2U);
  busy.release();
  ready.wait();
}

TEST_F(Points, AreTheHostsWhereTheDeviceCannot) {
  if (!test::find_in_model("fake_cuda_fail")) GTEST_SKIP() << "real drivers lack nothing on demand";
  const auto passes = [](const char* test, CUdevice_attribute lacking) {
    return test::passes_alone(test, {"FAKE_CUDA_LACKS=" + std::to_string(static_cast<int>(lacking))});
  };
  EXPECT_TRUE(passes("*AlonePoints.ByHostFunctions", CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM));
  EXPECT_TRUE(passes("*AlonePoints.ByHostFunctions", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED));
  EXPECT_TRUE(passes("*AlonePoints.BehindWhatNeverCame", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED));
  EXPECT_TRUE(passes("*AlonePoints.LetStreamsGoThatNobodyNames", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED));
  EXPECT_TRUE(passes("*AlonePoints.ByHostFunctions", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS));
  EXPECT_TRUE(test::passes_alone("*AlonePoints.AfterARefusal", {"FAKE_CUDA_LACKS="}));
  EXPECT_TRUE(test::passes_alone("*AlonePoints.WhoseRefusalTheSinkHears", {"FAKE_CUDA_LACKS="}));
}

}  // namespace
}  // namespace weir::cuda_test
