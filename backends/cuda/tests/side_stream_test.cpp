// SPDX-License-Identifier: Apache-2.0
// Work on memory that a stream's own context does not reach: it is in the stream's order, and in nobody else's.
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "cuda/device.hpp"
#include "cuda/stream.hpp"
#include "gate.hpp"
#include "green.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "settle.hpp"
#include "threads.hpp"
#include "weir/host.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;
using test::read;
using test::repeat;

/// Keeps a stream busy in the driver, and not in software, until it is told to end.
class Held {
 public:
  explicit Held(const Stream& stream) {
    (void)cuda::native(stream);
    gate_.hold(stream);
  }
  void release() { gate_.open(); }

 private:
  test::Gate gate_;
};

class SideStreams : public CudaTest {
 protected:
  static constexpr std::size_t size = 8192;

  static std::vector<Buffer> complete_buffers(const Device& device, int count) {
    const Stream home(device);
    std::vector<Buffer> all;
    for (int i = 0; i < count; ++i) {
      all.push_back(cuda::make_device_resource(device)->allocate(size, home));
      all.back().fill(std::uint8_t{0}, home);
    }
    home.synchronize();
    return all;
  }
  /// The second goes on while the first is held.
  static void expect_independent(const Stream& first, const Stream& second, const std::vector<Buffer>& buffers) {
    Held held(first);
    buffers[0].share().fill(std::uint8_t{1}, first);
    buffers[1].share().fill(std::uint8_t{2}, second);
    EXPECT_EQ(second.synchronize(1h), WaitStatus::ready) << "it waits for the other";
    EXPECT_FALSE(first.done());
    held.release();
    first.synchronize();
    EXPECT_BYTES(read(buffers[0].share(), first), repeat(size, 1));
    EXPECT_BYTES(read(buffers[1].share(), second), repeat(size, 2));
  }
  static bool has_second_device() { return devices().size() > 1 && devices()[1].backend() == "cuda"; }
  /// Nothing of an application's context is in use when it ends.
  static void settle() { cuda::make_device_resource(gpu())->trim(0); }
  /// Of the driver, ours and the application's; 0 over real ones.
  static std::size_t live_objects() {
    const auto count = reinterpret_cast<std::size_t (*)()>(test::find_in_model("fake_cuda_live_objects"));
    return count ? count() : 0;
  }
};

TEST_F(SideStreams, TwoStreamsOfAnotherContextAreIndependent) {
  const OtherContext elsewhere;
  const NativeStream first(elsewhere.get()), second(elsewhere.get());
  expect_independent(cuda::borrow(gpu(), first.get()), cuda::borrow(gpu(), second.get()), complete_buffers(gpu(), 2));
  settle();
}

TEST_F(SideStreams, TwoStreamsOfAnotherDeviceAreIndependent) {
  if (!has_second_device()) GTEST_SKIP() << "needs two CUDA devices";
  expect_independent(Stream(gpu()), Stream(gpu()), complete_buffers(cuda::device(1), 2));
}

TEST_F(SideStreams, DoNotWaitForTheLegacyStream) {
  const OtherContext elsewhere;
  const NativeStream native(elsewhere.get());
  const Stream stream = cuda::borrow(gpu(), native.get());
  auto buffers = complete_buffers(gpu(), 1);
  {
    const Current current(primary());
    Busy busy(CU_STREAM_LEGACY);
    buffers[0].fill(std::uint8_t{1}, stream);
    stream.synchronize();
    EXPECT_EQ(api().StreamQuery(CU_STREAM_LEGACY), CUDA_ERROR_NOT_READY);
    busy.release();
  }
  buffers.clear();
  settle();
}

// Both ways: the work comes after what was on the stream, and what follows on the stream after the work.
TEST_F(SideStreams, TheWorkIsInTheStreamsOrder) {
  const OtherContext elsewhere;
  const NativeStream native(elsewhere.get());
  auto buffers = complete_buffers(gpu(), 1);
  const Stream stream = cuda::borrow(gpu(), native.get()), own(gpu());
  const auto pinned = cuda::make_pinned_resource(gpu());
  Buffer before = pinned->allocate(size, own), after = pinned->allocate(size, own);
  own.synchronize();
  Buffer& buffer = buffers[0];
  {
    Held held(stream);
    before.copy_from(buffer, stream);
    buffer.fill(std::uint8_t{3}, stream);
    after.copy_from(buffer, stream);
    EXPECT_BYTES(read(buffer, own), repeat(size, 0)) << "not before what it comes after";
  }
  stream.synchronize();
  EXPECT_BYTES((std::span{before.host_data(), size}), repeat(size, 0));
  EXPECT_BYTES((std::span{after.host_data(), size}), repeat(size, 3));
  for (Buffer* each : {&buffer, &before, &after}) each->close();
  settle();
}

TEST_F(SideStreams, CopiesBetweenDevicesAreInTheStreamsOrder) {
  if (!has_second_device()) GTEST_SKIP() << "needs two CUDA devices";
  const auto there = complete_buffers(cuda::device(1), 2);
  const auto here = complete_buffers(gpu(), 1);
  const Stream stream(gpu());
  Buffer a = there[0].share(), b = there[1].share(), c = here[0].share();
  {
    Held held(stream);
    a.fill(std::uint16_t{0x0404}, stream);
    b.copy_from(a, stream);
    c.copy_from(b, stream);
    a.fill(std::uint8_t{5}, stream);
  }
  EXPECT_BYTES(read(c, stream), repeat(size, 4));
  EXPECT_BYTES(read(a, stream), repeat(size, 5));
}

TEST_F(SideStreams, EndWithTheirStream) {
  const OtherContext elsewhere;
  const NativeStream native(elsewhere.get());
  const auto use = [&] {
    const auto buffers = complete_buffers(gpu(), 1);
    const Stream stream = cuda::borrow(gpu(), native.get());
    buffers[0].share().fill(std::uint8_t{6}, stream);
    stream.synchronize();
  };
  const auto settled = [] {
    settle();
    return live_objects();
  };
  use();
  const auto most = settled() + 5;
  for (int i = 0; i < 50; ++i) use();
  while (settled() > most) std::this_thread::yield();  // the last owner of a stream is a thread, now and then
}

// Memory of the host and managed memory are every context's, and copies find out whose memory it is.
TEST_F(SideStreams, AreMadeOnlyForFills) {
  const OtherContext elsewhere;
  const NativeStream native(elsewhere.get());
  const Stream stream = cuda::borrow(gpu(), native.get());
  const Device of = gpu();
  for (const KindInfo& info : of.kinds()) {
    SCOPED_TRACE(to_string(info.kind));
    const auto resource = make_resource(gpu(), info.kind);
    Buffer a = resource->allocate(size, stream), b = resource->allocate(size, stream);
    test::await_releases();  // others end streams now and then
    const auto before = live_objects();
    b.copy_from(a, stream);
    EXPECT_LE(live_objects(), before);
    if (info.host_accessible) {
      a.fill(std::uint8_t{7}, stream);
      b.copy_from(a, stream);
      stream.synchronize();
      EXPECT_LE(live_objects(), before);
      EXPECT_BYTES((std::span{b.host_data(), size}), repeat(size, 7));
    }
    stream.synchronize();
    a.close();
    b.close();
    resource->trim(0);
  }
}

TEST_F(SideStreams, StreamsOfAGreenContextNeedNone) {
  const auto green = GreenContext::make();
  if (!green) GTEST_SKIP() << "no green contexts here";
  {
    const Stream stream = cuda::borrow(gpu(), green->stream()), own(gpu());
    auto buffers = complete_buffers(gpu(), 2);
    test::await_releases();  // others end streams now and then
    const auto before = live_objects();
    Buffer &a = buffers[0], &b = buffers[1];
    Held held(stream);
    a.fill(std::uint8_t{8}, stream);
    b.copy_from(a, stream);
    EXPECT_LE(live_objects(), before) << "its work stays in its part of the device";
    own.wait(stream.record());
    EXPECT_FALSE(own.done());
    held.release();
    EXPECT_BYTES(read(b, own), repeat(size, 8));
    const auto async = cuda::make_async_resource(gpu());
    Buffer c = async->allocate(size, stream);
    c.copy_from(b, stream);
    EXPECT_BYTES(read(c, stream), repeat(size, 8));
  }
  settle();
}

class LentStreams : public CudaTest {};

// What one allocation of a host stream waits for is nothing to the next.
TEST_F(LentStreams, AreLentOnlyWhenTheyHaveNothingToDo) {
  if (!gpu().find(MemoryKind::async)) GTEST_SKIP() << "no driver pools here";
  auto& lent = static_cast<cuda::Gpu&>(gpu().state()).lent_streams();
  test::Gate gate;
  auto held = lent.take();
  {
    const Stream as_stream(held);
    (void)cuda::native(as_stream);
    gate.hold(as_stream);
    EXPECT_FALSE(as_stream.done());
  }
  lent.give_back(held);
  const auto resource = cuda::make_async_resource(gpu());
  for (int i = 0; i < 2; ++i) {
    const Stream host(host_device());
    Buffer buffer = resource->allocate(4096, host);
    EXPECT_EQ(host.synchronize(1h), WaitStatus::ready) << "it waits for a stranger";
  }
  gate.open();
  EXPECT_EQ(held->wait_for(held->issued(), -1ns), WaitStatus::ready);
}

TEST_F(LentStreams, AreFew) {
  if (!gpu().find(MemoryKind::async)) GTEST_SKIP() << "no driver pools here";
  auto& lent = static_cast<cuda::Gpu&>(gpu().state()).lent_streams();
  std::vector<spi::Ref<spi::StreamState>> taken;
  for (std::size_t i = 0; i < 3 * cuda::LentStreams::most; ++i) taken.push_back(lent.take());
  for (auto& stream : taken) lent.give_back(std::move(stream));
  EXPECT_EQ(lent.count(), cuda::LentStreams::most);
}

TEST_F(LentStreams, ManyThreadsAllocateForStreamsOfTheHost) {
  if (!gpu().find(MemoryKind::async)) GTEST_SKIP() << "no driver pools here";
  const auto resource = cuda::make_async_resource(gpu());
  std::vector<test::Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      const Stream host(host_device()), stream(gpu());
      for (int i = 0; i < 50; ++i) {
        Buffer buffer = resource->allocate(4096, host);
        stream.wait(host.record());
        buffer.fill(std::uint8_t{9}, stream);
      }
      stream.synchronize();
    });
  }
  for (test::Thread& thread : threads) thread.join();
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

}  // namespace
}  // namespace weir::cuda_test
