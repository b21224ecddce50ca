// SPDX-License-Identifier: Apache-2.0
// Addresses in the order of many streams, of streams that are gone, and of others that have their handles.
#include <array>
#include <atomic>
#include <latch>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "allocators.hpp"
#include "modelled_driver.hpp"
#include "settle.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/callback_resource.hpp"

namespace weir::cuda_test {
namespace {

class AllocatorStreams : public Allocators {
 protected:
  void TearDown() override { test::await_releases(); }
};

CUdeviceptr number(void* address) { return reinterpret_cast<CUdeviceptr>(address); }

// Each round, each stream gets what it gave back in the round before.
TEST_F(AllocatorStreams, AThousandInTurn) {
  constexpr std::size_t bytes = 256;
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  std::vector<std::unique_ptr<NativeStream>> streams;
  for (int i = 0; i < 1000; ++i) streams.push_back(std::make_unique<NativeStream>());
  std::vector<void*> first;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      void* const address = allocator.allocate(streams[i]->get(), bytes);
      if (round == 1) first.push_back(address);
      if (round == 2) {
        EXPECT_EQ(address, first[i]) << i;
      }
      allocator.deallocate(streams[i]->get(), address);
    }
  }
  EXPECT_EQ(memory->pool_stats().waits, 0U);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

// What the driver is asked: whether the stream is captured, and whose handle it is. Nothing is recorded, waited for or
// queried, and it is all the same which context is current.
TEST_F(AllocatorStreams, APairAsksOnlyWhichStreamItIs) {
  const auto calls = reinterpret_cast<std::size_t (*)()>(test::find_in_model("fake_cuda_all_calls"));
  if (!calls) GTEST_SKIP() << "real drivers do not count their calls";
  constexpr std::size_t pairs = 100, questions = 2;
  cuda::Allocator allocator(pool());
  const NativeStream stream;
  const auto run = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) allocator.deallocate(stream.get(), allocator.allocate(stream.get(), 4096));
  };
  run(50);  // new streams begin with points of their own
  const auto before = calls();
  run(pairs);
  EXPECT_EQ(calls() - before, pairs * 2 * questions);
}

// One of the streams is used again after its lane has ended.
TEST_F(AllocatorStreams, LanesOfStreamsThatAreGoneEnd) {
  constexpr int streams = 9000;
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  const NativeStream kept;
  const auto pair = [&](CUstream stream) { allocator.deallocate(stream, allocator.allocate(stream, 256)); };
  pair(kept.get());
  for (int i = 0; i < streams; ++i) {
    const NativeStream stream;
    pair(stream.get());
  }
  pair(kept.get());
  memory->trim(0);
  EXPECT_LE(memory->pool_stats().streams, 4200U);
  EXPECT_EQ(memory->stats().reserved, 0U);
}

// The stream is destroyed while it still writes what came back on it. The next stream has its handle, and gets the
// memory, because there is no other: only after that write.
TEST_F(AllocatorStreams, AHandleThatComesAgainIsAnotherStream) {
  const HandlesComeAgain again;
  const auto memory = pool(page);
  cuda::Allocator allocator(memory);
  std::optional<NativeStream> first;
  first.emplace();
  const CUstream handle = first->get();
  void* const address = allocator.allocate(handle, page);
  Busy kernel(handle, {number(address), page, 1});
  allocator.deallocate(handle, address);
  first->destroy();
  kernel.lose_stream();
  std::vector<std::unique_ptr<NativeStream>> others;
  do {  // the handle is free once the driver has ended the stream
    others.push_back(std::make_unique<NativeStream>());
  } while (others.back()->get() != handle && others.size() < 100);
  NativeStream& second = *others.back();
  void* const next = allocator.allocate(second.get(), page);
  EXPECT_EQ(next, address) << "there is no more";
  {
    const Stream two = cuda::borrow(gpu(), second.get());
    fill(next, 2, two);
    EXPECT_FALSE(two.done()) << "the first stream still writes";
    kernel.release();
    EXPECT_EQ(first_byte(next, two), 2);
  }
  allocator.deallocate(second.get(), next);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

// Memory of streams that are gone comes back on streams that have their handles.
TEST_F(AllocatorStreams, LiveMemoryOutlivesItsStream) {
  const HandlesComeAgain again;
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  std::vector<void*> live;
  for (int i = 0; i < 300; ++i) {
    const NativeStream stream;
    live.push_back(allocator.allocate(stream.get(), page / 64));
  }
  EXPECT_EQ(std::set<void*>(live.begin(), live.end()).size(), live.size());
  for (void* address : live) {
    const NativeStream stream;
    const Stream user = cuda::borrow(gpu(), stream.get());
    Buffer::from_handle(
        gpu(), number(address), page / 64, [] {}, user)
        .fill(std::uint8_t{3}, user);
    allocator.deallocate(stream.get(), address);
  }
  EXPECT_EQ(allocator.live(), 0U);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
  memory->trim(0);
  EXPECT_EQ(memory->stats().reserved, 0U);
}

// What comes back on a stream that is not the memory's own is reused after the work of both.
TEST_F(AllocatorStreams, ForeignFreesAreUses) {
  const auto memory = pool(2 * page);
  cuda::Allocator allocator(memory);
  const NativeStream first, second, third;
  const Stream three = cuda::borrow(gpu(), third.get());
  void* const address = allocator.allocate(first.get(), page);
  Busy writes(second.get(), {number(address), page, 1});
  allocator.deallocate(second.get(), address);
  void* const other = allocator.allocate(third.get(), page);
  EXPECT_NE(other, address) << "the second still writes";
  writes.release();
  void* const next = allocator.allocate(third.get(), page);
  EXPECT_EQ(next, address) << "there is no more";
  fill(next, 2, three);
  EXPECT_EQ(first_byte(next, three), 2);
  allocator.deallocate(third.get(), next);
  allocator.deallocate(third.get(), other);
}

// Its owner cannot name the stream, which is gone by then. Another stream gets the memory after the stream's work.
TEST_F(AllocatorStreams, MayComeBackWithoutAStream) {
  const auto memory = pool(page);
  cuda::Allocator allocator(memory);
  const NativeStream second;
  NativeStream first;
  const Stream two = cuda::borrow(gpu(), second.get());
  void* const address = allocator.allocate(first.get(), page);
  Busy writes(first.get(), {number(address), page, 1});
  first.destroy();
  writes.lose_stream();
  allocator.deallocate(address);
  void* const next = allocator.allocate(second.get(), page);
  EXPECT_EQ(next, address);
  fill(next, 2, two);
  EXPECT_FALSE(two.done()) << "the first still writes";
  writes.release();
  EXPECT_EQ(first_byte(next, two), 2);
  allocator.deallocate(next);
  EXPECT_EQ(allocator.allocate(second.get(), page), next) << "its own stream needs not wait";
  allocator.deallocate(next);
  void* const sync = allocator.allocate_sync(page / 4);
  allocator.deallocate(sync);
  EXPECT_EQ(allocator.live(), 0U);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

TEST_F(AllocatorStreams, OfAnotherContextMustBeNamed) {
  OtherContext context;
  const NativeStream elsewhere(context.get());
  cuda::Allocator allocator(pool());
  allocator.deallocate(allocator.allocate(elsewhere.get(), 1000));
  const auto reports = test::take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("1000 bytes are leaked"), std::string::npos) << reports[0].message;
  EXPECT_EQ(allocator.live(), 0U);
}

// After enough pairs, nothing is recorded when memory comes back. Whoever then needs it finds out all the same.
TEST_F(AllocatorStreams, AStreamThatWasLongAloneIsWaitedFor) {
  const auto memory = pool(page);
  cuda::Allocator allocator(memory);
  const NativeStream first, second;
  const Stream two = cuda::borrow(gpu(), second.get());
  for (int i = 0; i < 50; ++i) allocator.deallocate(first.get(), allocator.allocate(first.get(), page));
  void* const address = allocator.allocate(first.get(), page);
  Busy writes(first.get(), {number(address), page, 1});
  allocator.deallocate(first.get(), address);
  void* const next = allocator.allocate(second.get(), page);
  EXPECT_EQ(next, address);
  fill(next, 2, two);
  EXPECT_FALSE(two.done()) << "the first still writes";
  writes.release();
  EXPECT_EQ(first_byte(next, two), 2);
  allocator.deallocate(second.get(), next);
}

// The debug adaptor writes and reads memory in calls that name other streams than the memory's.
TEST_F(AllocatorStreams, ResourcesMayPutWorkWhenAnotherStreamIsNamed) {
  const auto memory = make_debug(pool(), {.quarantine_bytes = page});
  cuda::Allocator allocator(memory);
  const NativeStream last;
  std::vector<void*> live;
  for (int i = 0; i < 40; ++i) {
    const NativeStream stream;
    void* const address = allocator.allocate(stream.get(), page / 8);
    if (i % 2 == 0) {
      allocator.deallocate(stream.get(), address);
    } else {
      live.push_back(address);
    }
  }
  for (void* address : live) allocator.deallocate(last.get(), address);
  for (int i = 0; i < 40; ++i) allocator.deallocate(last.get(), allocator.allocate(last.get(), page / 8));
  EXPECT_EQ(allocator.live(), 0U);
}

// A resource keeps the stream that it is asked for, and puts work there when no call names it.
TEST_F(AllocatorStreams, WorkThatIsPutAsideHasItsPlaceInTheOrder) {
  const Current current(primary());
  CUdeviceptr at = 0;
  ASSERT_CU(api().MemAlloc(&at, page));
  std::optional<Stream> kept;
  CallbackOptions options;
  options.allocate = [&](std::size_t, const Stream& stream) {
    kept = stream;
    return reinterpret_cast<void*>(at);
  };
  options.deallocate = [](void*, std::size_t) {};
  const auto memory = make_callback_resource(gpu(), options);
  const NativeStream native;
  const Stream stream = cuda::borrow(gpu(), native.get());
  {
    cuda::Allocator allocator(memory);
    void* const address = allocator.allocate(native.get(), page);
    auto view = Buffer::from_handle(
        gpu(), at, page, [] {}, stream);
    Busy writes(native.get(), {at, page, 1});
    view.fill(std::uint8_t{2}, *kept);  // after what the stream has
    writes.release();
    allocator.deallocate(native.get(), address);
    void* const again = allocator.allocate(native.get(), page);
    fill(again, 3, stream);  // after the work that was put aside
    EXPECT_EQ(first_byte(again, stream), 3);
    allocator.deallocate(native.get(), again);
    kept.reset();
  }
  test::await_releases();
  EXPECT_CU(api().MemFree(at));
}

// No call names the stream in a thread of the resource.
TEST_F(AllocatorStreams, WorkOfTheResourcesThreadsComesFirst) {
  const Current current(primary());
  CUdeviceptr at = 0;
  ASSERT_CU(api().MemAlloc(&at, page));
  CallbackOptions options;
  options.allocate = [&](std::size_t, const Stream& stream) {
    std::thread([&] {
      Buffer::from_handle(
          gpu(), at, page, [] {}, stream)
          .fill(std::uint8_t{2}, stream);
    }).join();
    return reinterpret_cast<void*>(at);
  };
  options.deallocate = [](void*, std::size_t) {};
  const auto memory = make_callback_resource(gpu(), options);
  const NativeStream native;
  const Stream stream = cuda::borrow(gpu(), native.get());
  {
    cuda::Allocator allocator(memory);
    for (int i = 0; i < 3; ++i) {
      void* const address = allocator.allocate(native.get(), page);
      fill(address, 3, stream);
      EXPECT_EQ(first_byte(address, stream), 3);
      allocator.deallocate(native.get(), address);
    }
  }
  test::await_releases();
  EXPECT_CU(api().MemFree(at));
}

// The driver's own allocations and frees go to the stream itself, or where they are ordered after it.
TEST_F(AllocatorStreams, OverTheDriversPool) {
  const auto memory = make_resource(gpu(), MemoryKind::async);
  cuda::Allocator allocator(memory);
  std::optional<NativeStream> first;
  first.emplace();
  const NativeStream second;
  const Current current(primary());
  const Stream two = cuda::borrow(gpu(), second.get());
  for (int i = 0; i < 20; ++i) {
    void* const address = allocator.allocate(first->get(), page);
    allocator.deallocate(i % 2 == 0 ? first->get() : second.get(), address);
  }
  void* const address = allocator.allocate(first->get(), page);
  ASSERT_CU(api().StreamSynchronize(first->get()));
  first.reset();
  fill(address, 1, two);
  allocator.deallocate(second.get(), address);
  EXPECT_EQ(allocator.live(), 0U);
  test::await_releases();
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

// What was not given back is given back by the allocator's end, and reused after what the stream still does.
TEST_F(AllocatorStreams, ItsEndWaitsForNobody) {
  const auto memory = pool(page);
  const NativeStream first, second;
  std::optional<Busy> writes;
  {
    cuda::Allocator allocator(memory);
    void* const address = allocator.allocate(first.get(), page);
    writes.emplace(first.get(), Busy::Write{number(address), page, 1});
  }
  const Stream two = cuda::borrow(gpu(), second.get());
  Buffer next = memory->allocate(page, two);
  next.fill(std::uint8_t{2}, two);
  EXPECT_FALSE(two.done()) << "the first still writes";
  writes->release();
  two.synchronize();
}

TEST_F(AllocatorStreams, AStreamOfAnotherContextWhileThePrimaryIsCurrent) {
  OtherContext context;
  const NativeStream elsewhere(context.get());
  cuda::Allocator allocator(pool());
  const Current current(primary());
  for (int i = 0; i < 3; ++i) allocator.deallocate(elsewhere.get(), allocator.allocate(elsewhere.get(), 4096));
  EXPECT_EQ(allocator.live(), 0U);
}

TEST_F(AllocatorStreams, SixteenThreadsOnTheirOwn) {
  constexpr std::size_t count = 16, rounds = 300;
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  std::vector<std::unique_ptr<NativeStream>> streams;
  for (std::size_t i = 0; i < count; ++i) streams.push_back(std::make_unique<NativeStream>());
  std::array<std::atomic<void*>, count> handed{};
  std::latch begin(count);
  std::vector<test::Thread> threads;
  for (std::size_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      const Current current(primary());
      begin.arrive_and_wait();
      for (std::size_t i = 0; i < rounds; ++i) {
        void* const address = allocator.allocate(streams[t]->get(), 256 * (1 + i % 7));
        // Every fifth is given back by another thread, on that thread's stream.
        if (i % 5 == 0) {
          allocator.deallocate(streams[t]->get(), handed.at((t + 1) % count).exchange(address));
        } else {
          allocator.deallocate(streams[t]->get(), address);
        }
      }
    });
  }
  for (test::Thread& thread : threads) thread.join();
  for (auto& left : handed) allocator.deallocate(streams[0]->get(), left.load());
  EXPECT_EQ(allocator.live(), 0U);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

}  // namespace
}  // namespace weir::cuda_test
