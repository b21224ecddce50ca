// SPDX-License-Identifier: Apache-2.0
// Borrowed streams, native handles, and order with work that the application puts on them.
#include <future>
#include <thread>

#include "bytes.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "native.hpp"
#include "threads.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;
using test::pattern;
using test::read;
using test::repeat;

class Streams : public CudaTest {};

TEST_F(Streams, BorrowingTwiceGivesOneTimeline) {
  const NativeStream native;
  const Stream a = cuda::borrow(gpu(), native.get()), b = cuda::borrow(gpu(), native.get());
  EXPECT_EQ(a, b);
  EXPECT_EQ(cuda::native(a), native.get());
}

TEST_F(Streams, NullIsTheLegacyStream) {
  const Stream null = cuda::borrow(gpu(), nullptr), legacy = cuda::borrow(gpu(), CU_STREAM_LEGACY);
  EXPECT_EQ(null, legacy);
  EXPECT_FALSE(legacy == cuda::borrow(gpu(), CU_STREAM_PER_THREAD));
}

TEST_F(Streams, AHandleUsedAgainIsAnotherTimeline) {
  const HandlesComeAgain again;
  std::uint64_t before = 0;
  {
    const NativeStream native;
    before = cuda::borrow(gpu(), native.get()).id();
  }
  const NativeStream native;
  EXPECT_NE(cuda::borrow(gpu(), native.get()).id(), before);
}

TEST_F(Streams, BorrowingAnOwnStreamGivesItself) {
  const Stream stream(gpu());
  EXPECT_EQ(cuda::borrow(gpu(), cuda::native(stream)), stream);
}

TEST_F(Streams, EachThreadHasItsOwnPerThreadStream) {
  const Stream mine = cuda::borrow(gpu(), CU_STREAM_PER_THREAD);
  test::Thread([&] { EXPECT_FALSE(cuda::borrow(gpu(), CU_STREAM_PER_THREAD) == mine); }).join();
  EXPECT_EQ(cuda::borrow(gpu(), CU_STREAM_PER_THREAD), mine);
}

TEST_F(Streams, SpecialStreamsWork) {
  const auto bytes = pattern(5000, 1);
  for (CUstream handle : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    const Stream stream = cuda::borrow(gpu(), handle);
    Buffer buffer = cuda::make_async_resource(gpu())->allocate(bytes.size(), stream);
    test::write(buffer, bytes, stream);
    EXPECT_BYTES(read(buffer, stream), bytes);
  }
}

TEST_F(Streams, DoNotWaitForTheLegacyStream) {
  const Stream stream(gpu());
  Buffer buffer = cuda::make_device_resource(gpu())->allocate(4096, stream);
  const Current current(primary());
  Busy busy(CU_STREAM_LEGACY);
  buffer.fill(std::byte{7}, stream);
  stream.synchronize();
  EXPECT_EQ(api().StreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
  busy.release();
}

TEST_F(Streams, AnotherThreadUsesAPerThreadStream) {
  const auto bytes = pattern(5000, 2);
  const Stream stream = cuda::borrow(gpu(), CU_STREAM_PER_THREAD);
  Buffer buffer = cuda::make_device_resource(gpu())->allocate(bytes.size(), stream);
  buffer.fill(std::byte{7}, stream);
  stream.synchronize();
  Busy busy(CU_STREAM_PER_THREAD);
  test::Thread([&] {
    // Waits, because at the moment of a query the wrong stream may be busy, too.
    EXPECT_EQ(stream.record().wait(50ms), WaitStatus::timeout) << "is ordered after what its own thread put there";
    test::write(buffer, bytes, stream);
  }).join();
  busy.release();
  EXPECT_BYTES(read(buffer, stream), bytes);
}

TEST_F(Streams, WorkOfTheApplicationComesFirst) {
  const NativeStream native;
  const Stream stream = cuda::borrow(gpu(), native.get());
  Busy busy(native.get());
  const Event event = stream.record();
  EXPECT_FALSE(event.done());
  EXPECT_EQ(event.wait(20ms), WaitStatus::timeout);
  EXPECT_FALSE(event.done());
  busy.release();
  event.wait();
  EXPECT_TRUE(event.done());
}

TEST_F(Streams, EveryRecordCoversLaterWorkOfTheApplication) {
  const Stream stream(gpu());
  CUstream native = cuda::native(stream);
  const Event first = stream.record();
  first.wait();
  Busy busy(native);
  EXPECT_FALSE(stream.record().done());
  EXPECT_FALSE(stream.done());
  EXPECT_TRUE(first.done());
}

TEST_F(Streams, ClosingOrdersTheFreeAfterWorkOfTheApplication) {
  const auto resource = cuda::make_async_resource(gpu());
  const NativeStream native;
  const Stream stream = cuda::borrow(gpu(), native.get());
  constexpr std::size_t bytes = std::size_t{1} << 20U;
  Buffer buffer = resource->allocate(bytes, stream);
  const auto address = cuda::pointer(buffer);
  Busy busy(native.get(), {address, bytes, 7});
  buffer.close();
  const Stream other(gpu());
  Buffer next = resource->allocate(bytes, other);
  next.fill(std::byte{1}, other);
  other.synchronize();
  EXPECT_NE(cuda::pointer(next), address) << "used again while the application's kernel runs";
}

TEST_F(Streams, ANativeCopySeesWhatWeirWrote) {
  const auto bytes = pattern(4096, 3);
  const Stream stream(gpu());
  Buffer buffer = cuda::make_device_resource(gpu())->allocate(bytes.size(), stream);
  Buffer pinned = cuda::make_pinned_resource(gpu())->allocate(bytes.size(), stream);
  test::write(buffer, bytes, stream);
  const Current current(primary());
  ASSERT_CU(api().MemcpyAsync(cuda::pointer(pinned), cuda::pointer(buffer), bytes.size(), cuda::native(stream)));
  stream.synchronize();
  EXPECT_BYTES((std::span{pinned.host_data(), bytes.size()}), bytes);
}

TEST_F(Streams, AStreamOfAnotherContextWorks) {
  const OtherContext other;
  const auto bytes = pattern(10000, 4);
  {
    const NativeStream native(other.get());
    const Stream borrowed = cuda::borrow(gpu(), native.get()), own(gpu());
    Buffer buffer = cuda::make_device_resource(gpu())->allocate(bytes.size(), own);
    test::write(buffer, bytes, own);
    borrowed.wait(own.record());
    Buffer copy = buffer.copy_to(borrowed);
    buffer.fill(std::byte{3}, borrowed);
    own.wait(borrowed.record());
    EXPECT_BYTES(read(copy, own), bytes);
    EXPECT_BYTES(read(buffer, borrowed), repeat(bytes.size(), 3));
    const auto resource = buffer.memory_resource();
    buffer.close();
    copy.close();
    (void)resource->trim(0);  // nothing of the other context is in use when it ends
  }
}

TEST_F(Streams, WaitsForPointsOfTheHostWithoutBlockingTheCaller) {
  test::Gate gate;
  const auto bytes = pattern(1000, 5);
  std::vector<std::unique_ptr<NativeStream>> natives;
  std::vector<Stream> streams;
  std::vector<Buffer> buffers;
  const auto resource = cuda::make_pinned_resource(gpu());
  for (int i = 0; i < 6; ++i) {  // more than wait by value
    natives.push_back(std::make_unique<NativeStream>());
    streams.push_back(cuda::borrow(gpu(), natives.back()->get()));
    buffers.push_back(resource->allocate(bytes.size(), streams.back()));
    buffers.back().fill(std::byte{0}, streams.back());
    streams.back().synchronize();
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    gate.hold(streams[i]);
    buffers[i].fill(std::byte{9}, streams[i]);
  }
  for (const Stream& stream : streams) EXPECT_EQ(stream.synchronize(5ms), WaitStatus::timeout);
  for (const Buffer& buffer : buffers) EXPECT_EQ(*buffer.host_data(), std::byte{0});
  gate.open();
  for (const Stream& stream : streams) stream.synchronize();
  for (const Buffer& buffer : buffers) EXPECT_BYTES((std::span{buffer.host_data(), 1000}), repeat(1000, 9));
}

TEST_F(Streams, WaitsForAPointThatIsNotSubmittedYet) {
  test::Gate gate;
  const Stream held(gpu());
  gate.hold(held);
  const Event event = held.record();
  const NativeStream native;
  const Stream borrowed = cuda::borrow(gpu(), native.get());
  auto waiting = std::async(std::launch::async, [&] { borrowed.wait(event); });
  EXPECT_EQ(waiting.wait_for(5ms), std::future_status::timeout);
  gate.open();
  waiting.get();
  borrowed.synchronize();
  EXPECT_TRUE(event.done());
}

TEST_F(Streams, HandingOutWaitsForWhatIsHeldBack) {
  test::Gate gate;
  const Stream held(gpu()), stream(gpu());
  gate.hold(held);
  stream.wait(held.record());  // unlike a wait for the host, this one is not the driver's before the gate opens
  Buffer buffer = cuda::make_pinned_resource(gpu())->allocate(64, stream);
  buffer.fill(std::byte{3}, stream);
  auto handle = std::async(std::launch::async, [&] { return cuda::native(stream); });
  while (!stream.state().has_work_from_outside()) std::this_thread::yield();
  auto another = std::async(std::launch::async, [&] { return cuda::native(stream); });
  for (auto* one : {&handle, &another}) EXPECT_EQ(one->wait_for(20ms), std::future_status::timeout);
  gate.open();
  EXPECT_EQ(another.get(), cuda::native(stream));
  const Current current(primary());
  ASSERT_CU(api().StreamSynchronize(handle.get()));
  EXPECT_EQ(*buffer.host_data(), std::byte{3});
}

TEST_F(Streams, TheOwnerIsKeptWhileTheTimelineIs) {
  auto native = std::make_shared<NativeStream>();
  const std::weak_ptr<NativeStream> alive = native;
  CUstream handle = native->get();
  Stream stream = cuda::borrow(gpu(), handle, std::move(native));
  Event event = stream.record();
  stream = Stream(gpu());
  EXPECT_FALSE(alive.expired());
  event.wait();
  event = {};
  EXPECT_TRUE(alive.expired());
}

TEST_F(Streams, ACapturedStreamIsRefused) {
  const NativeStream native;
  const Stream stream = cuda::borrow(gpu(), native.get());
  const Stream own(gpu());
  Buffer buffer = cuda::make_device_resource(gpu())->allocate(256, own);
  own.synchronize();
  const Current current(primary());
  ASSERT_CU(api().StreamBeginCapture(native.get(), CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_ERROR(buffer.fill(std::byte{1}, stream), Errc::unsupported, "captured");
  EXPECT_ERROR(stream.record(), Errc::unsupported, "captured");
  // Other streams go on, and do not spoil the capture.
  Buffer second = cuda::make_device_resource(gpu())->allocate(256, own);
  second.fill(std::byte{2}, own);
  own.synchronize();
  CUgraph graph = nullptr;
  ASSERT_CU(api().StreamEndCapture(native.get(), &graph));
  EXPECT_CU(api().GraphDestroy(graph));
  buffer.fill(std::byte{3}, stream);
  stream.synchronize();
}

TEST_F(Streams, WrongBackendsAreNamed) {
  const Stream host(host_device());
  EXPECT_ERROR(cuda::native(host), Errc::incompatible, "host:0");
  EXPECT_ERROR(cuda::borrow(host_device(), nullptr), Errc::incompatible, "host:0");
  EXPECT_ERROR(cuda::make_pinned_resource(host_device()), Errc::incompatible, "host:0");
  Buffer buffer = make_resource(host_device())->allocate(64, host);
  EXPECT_ERROR(cuda::pointer(buffer), Errc::incompatible, "host:0");
}

TEST_F(Streams, AStreamOfAnotherDeviceIsRefused) {
  if (devices().size() < 2 || device("cuda:0") == devices().at(1) || devices().at(1).backend() != "cuda") {
    GTEST_SKIP() << "needs two CUDA devices";
  }
  const NativeStream native(primary(1));
  EXPECT_ERROR(cuda::borrow(gpu(), native.get()), Errc::incompatible, "CUDA device 1");
}

}  // namespace
}  // namespace weir::cuda_test
