// SPDX-License-Identifier: Apache-2.0
// Addresses in the order of an application's streams: what comes again, what is waited for, what may end
// before.

#include "weir/interop/cuda_allocator.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "allocators.hpp"
#include "bytes.hpp"
#include "expect.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

using namespace std::chrono_literals;
using test::take_reports;

TEST_F(Allocators, AStreamGetsItsOwnAgainWithoutWaiting) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  const NativeStream stream;
  Busy busy(stream.get());
  std::set<void*> seen;
  for (int i = 0; i < 100; ++i) {
    void* const address = allocator.allocate(stream.get(), page);
    seen.insert(address);
    allocator.deallocate(stream.get(), address);
  }
  EXPECT_EQ(seen.size(), 1U);
  EXPECT_EQ(memory->pool_stats().grown, 1U);
  EXPECT_EQ(memory->pool_stats().reuses, 99U);
  EXPECT_EQ(allocator.live(), 0U);
}

// All that the pool has was written on a busy stream and given back there. Another stream gets it, and waits.
TEST_F(Allocators, AnotherStreamGetsItAfterItsUse) {
  const auto memory = pool(page);
  cuda::Allocator allocator(memory);
  const NativeStream first, second;
  const Stream one = cuda::borrow(gpu(), first.get()), two = cuda::borrow(gpu(), second.get());
  Busy busy(first.get());
  void* const address = allocator.allocate(first.get(), page);
  fill(address, 1, one);
  allocator.deallocate(first.get(), address);
  void* const again = allocator.allocate(second.get(), page);
  EXPECT_EQ(again, address);
  EXPECT_EQ(memory->pool_stats().waits, 1U);
  fill(again, 2, two);
  EXPECT_FALSE(two.done()) << "it must not be written while the first still writes";
  busy.release();
  EXPECT_EQ(first_byte(again, two), 2);
  allocator.deallocate(second.get(), again);
}

TEST_F(Allocators, ItMayBeGivenBackOnAnotherStream) {
  const auto memory = pool(2 * page);
  cuda::Allocator allocator(memory);
  const NativeStream first, second;
  const Stream one = cuda::borrow(gpu(), first.get()), two = cuda::borrow(gpu(), second.get());
  void* const address = allocator.allocate(first.get(), page);
  Busy busy(second.get());
  fill(address, 1, two);
  allocator.deallocate(second.get(), address);
  void* const other = allocator.allocate(first.get(), page);
  EXPECT_NE(other, address) << "the second still writes";
  busy.release();
  two.synchronize();
  void* const again = allocator.allocate(first.get(), page);
  EXPECT_EQ(again, address) << "there is no more";
  fill(again, 2, one);
  EXPECT_EQ(first_byte(again, one), 2);
  allocator.deallocate(first.get(), again);
  allocator.deallocate(first.get(), other);
}

// Handles are used again by the driver; nothing is asked of a stream that ended.
TEST_F(Allocators, StreamsMayEndWhenTheyLike) {
  const HandlesComeAgain again;
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  std::vector<void*> left;
  for (int i = 0; i < 200; ++i) {
    const NativeStream stream;
    void* const address = allocator.allocate(stream.get(), page / 16);
    left.push_back(allocator.allocate(stream.get(), page / 16));
    allocator.deallocate(stream.get(), address);
  }
  EXPECT_EQ(allocator.live(), 200U);
  const NativeStream last;
  for (void* address : left) allocator.deallocate(last.get(), address);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
  memory->trim(0);
  EXPECT_EQ(memory->stats().reserved, 0U);
}

TEST_F(Allocators, SynchronousMemoryIsForEveryStream) {
  const auto memory = pool(page);
  cuda::Allocator allocator(memory);
  const NativeStream stream;
  std::optional<Busy> busy(stream.get());
  void* const address = allocator.allocate(stream.get(), page);
  allocator.deallocate(stream.get(), address);
  std::atomic<bool> released{false}, returned{false};
  test::Thread waits([&] {
    const test::OnLeaving told([&] { returned = true; });
    void* const again = allocator.allocate_sync(page);
    returned = true;
    EXPECT_TRUE(released) << "the stream was not done with it";
    EXPECT_EQ(again, address);
    allocator.deallocate_sync(again);
  });
  while (memory->pool_stats().waits == 0 && !returned) std::this_thread::yield();
  released = true;
  busy->release();
  waits.join();
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

TEST_F(Allocators, SpecialStreamsAndOtherContexts) {
  OtherContext context;
  const NativeStream elsewhere(context.get());
  cuda::Allocator allocator(pool());
  for (CUstream stream : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, elsewhere.get()}) {
    for (int i = 0; i < 3; ++i) {
      void* const address = allocator.allocate(stream, 1000);
      EXPECT_NE(address, nullptr);
      allocator.deallocate(stream, address);
    }
  }
  EXPECT_EQ(allocator.live(), 0U);
}

TEST_F(Allocators, HostMemoryInTheOrderOfAStream) {
  const auto memory = make_pool(host::make_pageable_resource());
  cuda::Allocator allocator(memory);
  const NativeStream stream;
  Busy busy(stream.get());
  auto* const address = static_cast<char*>(allocator.allocate(stream.get(), 1000));
  address[999] = 1;
  allocator.deallocate(stream.get(), address);
  EXPECT_EQ(allocator.allocate(stream.get(), 1000), address);
  const NativeStream other;
  EXPECT_NE(allocator.allocate(other.get(), 1000), address);
}

TEST_F(Allocators, AlignmentsAndZeroBytes) {
  cuda::Allocator allocator(pool());
  const NativeStream stream;
  for (std::size_t alignment = 1; alignment <= page; alignment *= 2) {
    void* const address = allocator.allocate(stream.get(), 100, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % alignment, 0U) << alignment;
    allocator.deallocate(stream.get(), address);
  }
  EXPECT_EQ(allocator.allocate(stream.get(), 0), nullptr);
  EXPECT_EQ(allocator.allocate_sync(0), nullptr);
  allocator.deallocate(stream.get(), nullptr);
  allocator.deallocate_sync(nullptr);
  EXPECT_ERROR((void)allocator.allocate(stream.get(), 1, 3), Errc::invalid_argument, "alignment 3");
}

TEST_F(Allocators, ExhaustionLeavesNothing) {
  const auto memory = make_limiting(pool(), 10000);
  cuda::Allocator allocator(memory);
  const NativeStream stream;
  EXPECT_OUT_OF_MEMORY((void)allocator.allocate(stream.get(), 10001), "limit");
  EXPECT_EQ(allocator.live(), 0U);
  void* const address = allocator.allocate(stream.get(), 10000);
  allocator.deallocate(stream.get(), address);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

TEST_F(Allocators, WhatIsNotItsOwnIsReported) {
  cuda::Allocator allocator(pool()), other(pool());
  const NativeStream stream;
  void* const address = allocator.allocate(stream.get(), 100);
  other.deallocate(stream.get(), address);
  other.deallocate_sync(address);
  EXPECT_EQ(take_reports().size(), 2U);
  EXPECT_EQ(allocator.live(), 1U);
  allocator.deallocate(stream.get(), address);
  EXPECT_TRUE(take_reports().empty());
  allocator.deallocate(stream.get(), address);
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST_F(Allocators, EightThreadsShareOne) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  std::array<std::optional<NativeStream>, 4> streams;
  for (auto& stream : streams) stream.emplace();
  std::latch begin(8);
  std::vector<test::Thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      begin.arrive_and_wait();
      for (std::size_t i = 0; i < 300; ++i) {
        CUstream const from = streams.at(t % 4)->get();
        void* const address = allocator.allocate(from, 256 * (1 + i % 5));
        void* const sync = allocator.allocate_sync(256);
        EXPECT_NE(address, sync);
        allocator.deallocate(i % 3 == 0 ? streams.at((t + 1) % 4)->get() : from, address);
        allocator.deallocate_sync(sync);
      }
    });
  }
  for (test::Thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.live(), 0U);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

TEST_F(Allocators, ItsEndClosesWhatIsLeft) {
  const auto memory = pool();
  const NativeStream stream;
  {
    cuda::Allocator allocator(memory);
    for (int i = 0; i < 10; ++i) (void)allocator.allocate(stream.get(), 100);
    EXPECT_EQ(memory->stats().live_buffers, 10U);
  }
  EXPECT_EQ(memory->stats().live_buffers, 0U);
}

// Other memory of the stream got a point of its own before. What came later is known of by its end alone.
TEST_F(Allocators, WhatItsEndClosesIsUsedAfterItsStream) {
  const auto memory = pool(2 * page);
  const NativeStream native;
  const Stream own(gpu()), other(gpu());
  std::optional<cuda::Allocator> allocator(memory);
  (void)allocator->allocate(native.get(), page);
  allocator->deallocate(native.get(), allocator->allocate(native.get(), page));
  const Buffer second = memory->allocate(page, own);
  Busy busy(native.get());
  allocator.reset();
  std::optional<Buffer> first = memory->try_allocate(page, other);
  if (first) {
    first->fill(std::byte{1}, other);
    EXPECT_EQ(other.synchronize(20ms), WaitStatus::timeout) << "the stream may still use it";
  }
  busy.release();
  other.synchronize();
}

TEST_F(Allocators, OtherMemoryIsRefused) {
  EXPECT_ERROR(cuda::Allocator{nullptr}, Errc::invalid_argument, "null");
  for (const Device& device : devices()) {
    if (device.backend() != "vulkan") continue;
    EXPECT_ERROR(cuda::Allocator{make_resource(device)}, Errc::unsupported, device.id());
  }
}

}  // namespace
}  // namespace weir::cuda_test
