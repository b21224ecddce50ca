// SPDX-License-Identifier: Apache-2.0
// Order while the device is busy: waits between streams, timeouts, host functions.
#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "bytes.hpp"
#include "native.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;

class Waits : public CudaTest {};

TEST_F(Waits, AStreamWaitsForABusyOne) {
  const Stream busy_stream(gpu()), waiting(gpu());
  Buffer buffer = cuda::make_pinned_resource(gpu())->allocate(64, waiting);
  buffer.fill(std::byte{1}, waiting);
  waiting.synchronize();
  Busy busy(cuda::native(busy_stream));
  waiting.wait(busy_stream.record());
  buffer.fill(std::byte{2}, waiting);
  EXPECT_EQ(waiting.synchronize(20ms), WaitStatus::timeout);
  EXPECT_EQ(*buffer.host_data(), std::byte{1});
  busy.release();
  waiting.synchronize();
  EXPECT_EQ(*buffer.host_data(), std::byte{2});
}

// The hardware has few queues, so a stream may share the busy one's; not all of twice as many do.
TEST_F(Waits, OtherStreamsGoOn) {
  const Stream busy_stream(gpu());
  std::vector<Stream> others;
  for (int i = 0; i < 16; ++i) others.emplace_back(gpu());
  Buffer buffer = cuda::make_async_resource(gpu())->allocate(1 << 20, others[0]);
  buffer.fill(std::byte{1}, others[0]);
  others[0].synchronize();
  Busy busy(cuda::native(busy_stream));
  constexpr std::size_t part = 4096;
  for (std::size_t i = 0; i < others.size(); ++i) buffer.fill(std::byte{2}, i * part, part, others[i]);
  const auto went_on = [](const Stream& other) { return other.done(); };
  while (std::none_of(others.begin(), others.end(), went_on) && !busy_stream.done()) std::this_thread::yield();
  EXPECT_FALSE(busy_stream.done());
}

TEST_F(Waits, PointsInOrderWhileManyThreadsAsk) {
  const Stream stream(gpu());
  Buffer buffer = cuda::make_async_resource(gpu())->allocate(1 << 16, stream);
  std::atomic<bool> stop{false};
  std::vector<test::Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) {
        const Event event = stream.record();
        if (t % 2) {
          event.wait();
          EXPECT_TRUE(event.done());
        } else {
          EXPECT_NE(event.wait(50us), WaitStatus::lost);
        }
      }
    });
  }
  for (int i = 0; i < 2000; ++i) buffer.fill(static_cast<unsigned char>(i), stream);
  stop = true;
  for (auto& thread : threads) thread.join();
  stream.synchronize();
}

TEST_F(Waits, HostFunctionsRunInOrder) {
  const Stream stream(gpu());
  std::vector<int> seen;
  for (int i = 0; i < 100; ++i) stream.call([&seen, i] { seen.push_back(i); });
  stream.synchronize();
  ASSERT_EQ(seen.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
}

TEST_F(Waits, AHostFunctionRunsAfterTheKernelBeforeIt) {
  const Stream stream(gpu());
  Busy busy(cuda::native(stream));
  std::atomic<bool> called{false};
  stream.call([&] { called = true; });
  EXPECT_EQ(stream.synchronize(20ms), WaitStatus::timeout);
  EXPECT_FALSE(called);
  busy.release();
  stream.synchronize();
  EXPECT_TRUE(called);
}

TEST_F(Waits, AnExceptionInAHostFunctionIsReported) {
  const Stream stream(gpu());
  stream.call([] { throw std::runtime_error("thrown in a host function"); });
  stream.synchronize();
  const auto reports = test::take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("thrown in a host function"), std::string::npos);
  EXPECT_FALSE(stream.state().lost());
}

TEST_F(Waits, AHostFunctionMayOwnMemoryAndStreams) {
  const auto resource = cuda::make_async_resource(gpu());
  for (int i = 0; i < 20; ++i) {
    const Stream stream(gpu());
    auto owned = std::make_shared<std::pair<Buffer, Stream>>(resource->allocate(4096, stream), Stream(gpu()));
    stream.call([owned] { EXPECT_FALSE(owned->first.is_closed()); });
    owned.reset();
    stream.synchronize();
  }
  while (resource->stats().live_buffers != 0) std::this_thread::yield();
}

TEST_F(Waits, CopiesBetweenPinnedBuffersDoNotBlockTheCaller) {
  const Stream stream(gpu());
  const auto bytes = test::pattern(100000, 11);
  const auto resource = cuda::make_pinned_resource(gpu());
  Buffer a = resource->allocate(bytes.size(), stream), b = resource->allocate(bytes.size(), stream);
  test::write(a, bytes, stream);
  stream.synchronize();
  Busy busy(cuda::native(stream));
  b.copy_from(a, stream);
  EXPECT_FALSE(stream.done());
  busy.release();
  EXPECT_BYTES(test::read(b, stream), bytes);
}

TEST_F(Waits, WorkPendingAtTheEndOfAStreamIsDone) {
  const auto resource = cuda::make_pinned_resource(gpu());
  const Stream observer(gpu());
  Buffer buffer = resource->allocate(64, observer);
  {
    const Stream stream(gpu());
    buffer.fill(std::byte{1}, stream);
    buffer.fill(std::byte{2}, stream);
    observer.wait(stream.record());
  }
  observer.synchronize();
  EXPECT_EQ(*buffer.host_data(), std::byte{2});
}

}  // namespace
}  // namespace weir::cuda_test
