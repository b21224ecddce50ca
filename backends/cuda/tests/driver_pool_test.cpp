// SPDX-License-Identifier: Apache-2.0
// The driver's pool of a resource: what it holds is counted, what nobody uses goes back when somebody asks, and nobody
// waits for a stranger.
#include <atomic>
#include <future>
#include <latch>
#include <limits>

#include "bytes.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "settle.hpp"
#include "threads.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

class DriverPools : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!gpu().find(MemoryKind::async)) GTEST_SKIP() << "no driver pools here";
  }
  /// The plain resource's and the typed factory's.
  static std::vector<ResourcePtr> both() {
    return {make_resource(gpu(), MemoryKind::async), cuda::make_async_resource(gpu())};
  }
};

TEST_F(DriverPools, WhatIsKeptIsReserved) {
  const Stream stream(gpu());
  for (const ResourcePtr& resource : both()) {
    EXPECT_EQ(resource->stats().reserved, 0U);
    EXPECT_EQ(resource->stats().peak_reserved, 0U);
    Buffer buffer = resource->allocate(64 * mib, stream);
    EXPECT_GE(resource->stats().reserved, 64 * mib);
    buffer.close();
    stream.synchronize();
    EXPECT_EQ(resource->stats().in_use, 0U);
    EXPECT_GE(resource->stats().reserved, 64 * mib) << "the driver keeps it";
    Buffer again = resource->allocate(64 * mib, stream);
    EXPECT_LT(resource->stats().peak_reserved, 128 * mib) << "and uses it again";
  }
}

TEST_F(DriverPools, WhatIsAboveTheirThresholdGoesBackWhenTheHostSynchronizes) {
  constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
  const Current current(primary());
  const NativeStream native;
  const Stream stream = cuda::borrow(gpu(), native.get());
  for (const std::size_t threshold : {std::size_t{0}, all}) {
    const auto resource = cuda::make_async_resource(gpu(), {.release_threshold = threshold});
    resource->allocate(64 * mib, stream).close();
    ASSERT_CU(api().StreamSynchronize(native.get()));
    if (threshold == 0) {
      EXPECT_EQ(resource->stats().reserved, 0U);
    } else {
      EXPECT_GE(resource->stats().reserved, 64 * mib);
    }
  }
}

// Right after the close, without a synchronization by the caller.
TEST_F(DriverPools, TrimGivesItBack) {
  const Stream stream(gpu());
  for (const ResourcePtr& resource : both()) {
    Buffer kept = resource->allocate(mib, stream), buffer = resource->allocate(64 * mib, stream);
    buffer.fill(std::uint8_t{1}, stream);
    buffer.close();
    EXPECT_GE(resource->trim(0), 64 * mib - 2 * mib);
    EXPECT_LT(resource->stats().reserved, 64 * mib);
    kept.fill(std::uint8_t{2}, stream);
    EXPECT_BYTES(test::read(kept, stream), test::repeat(mib, 2));
    kept.close();
    resource->trim(0);
    EXPECT_EQ(resource->stats().reserved, 0U);
    EXPECT_GE(resource->stats().peak_reserved, 65 * mib);
    EXPECT_EQ(resource->trim(0), 0U) << "nothing is left";
  }
}

TEST_F(DriverPools, TrimKeepsAsMuchUnusedMemoryAsItIsTold) {
  const Stream stream(gpu());
  for (const ResourcePtr& resource : both()) {
    Buffer used = resource->allocate(64 * mib, stream), buffer = resource->allocate(128 * mib, stream);
    buffer.close();
    stream.synchronize();
    const auto before = resource->stats().reserved;
    resource->trim(64 * mib);
    const auto after = resource->stats().reserved;
    EXPECT_GE(after, 64 * mib) << "in use; drivers give back whole chunks, until less is left";
    if (test::find_in_model("fake_cuda_fault")) {
      EXPECT_EQ(after, 128 * mib) << "in use and to keep; the model gives back granules";
    }
    EXPECT_LT(after, before);
    resource->trim(std::numeric_limits<std::size_t>::max());
    EXPECT_EQ(resource->stats().reserved, after);
  }
}

TEST_F(DriverPools, TrimSeesFreesOnStreamsThatEnded) {
  const auto resource = cuda::make_async_resource(gpu());
  {
    const NativeStream native;
    const Stream own(gpu()), borrowed = cuda::borrow(gpu(), native.get());
    for (const Stream* stream : {&own, &borrowed}) resource->allocate(64 * mib, *stream).fill(std::uint8_t{1}, *stream);
  }
  for (int i = 0; i < 100; ++i) {  // more than are remembered without being looked at
    const Stream stream(gpu());
    resource->allocate(4096, stream).fill(std::uint8_t{1}, stream);
  }
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

// Each resource has a pool of its own: neither gives back what the other keeps, nor waits for what it freed.
TEST_F(DriverPools, AreOneResourcesAlone) {
  const auto ours = cuda::make_async_resource(gpu()), theirs = cuda::make_async_resource(gpu());
  const Stream stream(gpu()), held(gpu());
  ours->allocate(64 * mib, stream).close();
  Buffer buffer = theirs->allocate(64 * mib, held);
  held.synchronize();
  Busy busy(cuda::native(held));
  buffer.close(held);
  ours->trim(0);
  EXPECT_FALSE(held.done()) << "it waited for a stranger";
  EXPECT_EQ(ours->stats().reserved, 0U);
  EXPECT_GE(theirs->stats().reserved, 64 * mib);
  busy.release();
  theirs->trim(0);
  EXPECT_EQ(theirs->stats().reserved, 0U);
}

TEST_F(DriverPools, WhatTheyKeepIsThereForOthersBeforeMemoryRunsOut) {
  const auto keeps = cuda::make_async_resource(gpu());
  const Stream stream(gpu());
  // Most of what there is, found by halving: how much that is nobody knows.
  std::size_t most = gpu().total_memory();
  std::optional<Buffer> all;
  for (; !all; most -= most / 8) all = keeps->try_allocate(most, stream);
  const std::size_t bytes = all->size();
  all->close();
  stream.synchronize();
  EXPECT_GE(keeps->stats().reserved, bytes);
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::async}) {
    if (!gpu().find(kind)) continue;
    const auto resource = make_resource(gpu(), kind);
    EXPECT_TRUE(resource->try_allocate(bytes / 2 + bytes / 4, stream).has_value()) << to_string(kind);
    stream.synchronize();
    resource->trim(0);
    keeps->allocate(bytes / 2, stream).close();
    stream.synchronize();
  }
  const auto paged = make_pool(cuda::make_vmm_resource(gpu()));
  EXPECT_TRUE(paged->try_allocate(bytes / 2 + bytes / 4, stream).has_value());
}

// A pool without handles holds its memory until its frees are complete. An allocation that would fail waits for that,
// but not for ever.
TEST_F(DriverPools, GiveAllTheirMemoryBackWhenTheyEnd) {
  constexpr int tries = 10;  // because a slow machine may use up the time for which an allocation waits
  const Stream stream(gpu()), held(gpu());
  bool waited = false;
  for (int i = 0; i < tries && !waited; ++i) {
    ResourcePtr ends = cuda::make_async_resource(gpu());
    const auto next = cuda::make_async_resource(gpu());
    std::optional<Buffer> all;
    for (std::size_t most = gpu().total_memory(); !all; most -= most / 8) all = ends->try_allocate(most, held);
    const std::size_t most_of_it = all->size() / 4 * 3;
    held.synchronize();
    Busy busy(cuda::native(held));
    all.reset();
    ends.reset();
    auto fits = [&] { return next->try_allocate(most_of_it, stream).has_value(); };
    if (i == 0 && test::find_in_model("fake_cuda_fault")) {  // a driver may wait for the stream before it refuses
      EXPECT_FALSE(fits()) << "the stream still works";
    }
    auto fits_later = std::async(std::launch::async, fits);
    (void)fits_later.wait_for(std::chrono::milliseconds{20});  // so that it asks while the stream works
    busy.release();
    waited = fits_later.get();
    held.synchronize();
  }
  EXPECT_TRUE(waited);
}

// Drivers crash when two threads synchronize after a pool was destroyed with frees to come.
TEST_F(DriverPools, EndAfterTheirFrees) {
  constexpr int rounds = 300;
  const Stream streams[] = {Stream(gpu()), Stream(gpu())};
  const auto device_memory = cuda::make_device_resource(gpu());
  Buffer busy[] = {device_memory->allocate(4 * mib, streams[0]), device_memory->allocate(4 * mib, streams[1])};
  for (int i = 0; i < rounds; ++i) {
    for (int k = 0; k < 2; ++k) {
      const ResourcePtr resource = make_resource(gpu(), MemoryKind::async);
      busy[k].fill(std::uint8_t{1}, streams[k]);
      resource->allocate(mib, streams[k]).fill(std::uint8_t{1}, streams[k]);
    }
    std::latch both(2);
    const auto synchronize = [&] {
      both.arrive_and_wait();
      for (const Stream& stream : streams) stream.synchronize();
    };
    const test::Thread other(synchronize);
    synchronize();
  }
}

// Drivers were seen to crash when a pool and a stream with its frees are destroyed at one time.
TEST_F(DriverPools, EndBesideStreams) {
  constexpr int rounds = 150;
  const auto watch = reinterpret_cast<void (*)(bool)>(test::find_in_model("fake_cuda_watch_ends"));
  if (watch) watch(true);
  std::atomic<bool> over{false};
  auto streams = std::async(std::launch::async, [&over] {
    int ended = 0;
    for (; !over; ++ended) (void)Stream(gpu());
    return ended;
  });
  {
    const test::OnLeaving end([&] { over = true; });
    for (int i = 0; i < rounds; ++i) {
      const Stream stream(gpu());
      const ResourcePtr resource = make_resource(gpu(), MemoryKind::async);
      resource->allocate(mib, stream).fill(std::uint8_t{1}, stream);
    }
    test::await_releases();
  }
  EXPECT_GT(streams.get(), 0);
  if (watch) watch(false);
}

// A refused allocation lets all of the driver's pools give back what they do not use, whatever other threads do then.
TEST_F(DriverPools, AreTrimmedBesideStreamsThatEnd) {
  constexpr int rounds = 400;
  const auto limited = cuda::make_async_resource(gpu(), {.max_size = 4 * mib});
  const auto resource = cuda::make_async_resource(gpu());
  std::atomic<bool> over{false};
  auto refusals = std::async(std::launch::async, [&] {
    const Stream stream(gpu());
    int refused = 0;
    for (; !over; ++refused) EXPECT_FALSE(limited->try_allocate(64 * mib, stream));
    return refused;
  });
  {
    const test::OnLeaving end([&] { over = true; });
    for (int i = 0; i < rounds; ++i) {
      const Stream stream(gpu());
      Buffer buffer = resource->allocate(mib, stream);
      buffer.fill(std::byte{1}, stream);
      buffer.close();  // the stream ends before the host has seen this
    }
  }
  EXPECT_GT(refusals.get(), 0);
}

TEST_F(DriverPools, AskNothingOfAContextThatEnded) {
  for (const ResourcePtr& resource : both()) {
    {
      const OtherContext context;
      const NativeStream native(context.get());
      const Stream stream = cuda::borrow(gpu(), native.get());
      Buffer buffer = resource->allocate(mib, stream);
      buffer.fill(std::uint8_t{1}, stream);
      buffer.close();
      stream.synchronize();
    }
    resource->trim(0);
  }
}

TEST_F(DriverPools, CostNothingUntilTheyAreUsed) {
  const auto resource = make_resource(gpu(), MemoryKind::async);
  const Stream stream(gpu());
  (void)resource->allocate(0, stream);
  EXPECT_EQ(resource->trim(0), 0U);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

// The event behind a free that nobody has looked at belongs to the pool until somebody does.
TEST_F(DriverPools, TrimWaitsForItsOwnFrees) {
  const auto resource = cuda::make_async_resource(gpu());
  const Stream stream(gpu());
  Buffer buffer = resource->allocate(64 * mib, stream);
  stream.synchronize();
  Busy busy(cuda::native(stream));
  buffer.close();
  auto trimming = std::async(std::launch::async, [&] { return resource->trim(0); });
  EXPECT_EQ(trimming.wait_for(std::chrono::milliseconds{20}), std::future_status::timeout);
  busy.release();
  EXPECT_GE(trimming.get(), 64 * mib);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

// No event of the device's own context can be recorded on a stream of another one, so the pool's own stream waits for
// the free.
TEST_F(DriverPools, TrimWaitsForFreesInOtherContexts) {
  const auto resource = cuda::make_async_resource(gpu());
  const Stream stream(gpu());
  Buffer buffer = resource->allocate(64 * mib, stream);
  stream.synchronize();
  const OtherContext elsewhere;
  const NativeStream native(elsewhere.get());
  const Stream theirs = cuda::borrow(gpu(), native.get());
  test::Gate gate;
  gate.hold(theirs);
  buffer.close(theirs);
  auto trimming = std::async(std::launch::async, [&] { return resource->trim(0); });
  EXPECT_EQ(trimming.wait_for(std::chrono::milliseconds{20}), std::future_status::timeout);
  gate.open();
  EXPECT_GE(trimming.get(), 64 * mib);
}

}  // namespace
}  // namespace weir::cuda_test
