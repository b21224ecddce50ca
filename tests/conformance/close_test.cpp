// SPDX-License-Identifier: Apache-2.0
// The end of a handle: as often as one likes, from any thread, while others own the memory. Afterwards: `closed`.

#include <atomic>
#include <cstdint>
#include <latch>

#include "fixture.hpp"
#include "threads.hpp"
#include "weir/ipc.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class Close : public OnMemory {
 protected:
  void expect_closed(Buffer& closed) const {
    Buffer open = resource->allocate(0, stream);
    Bytes bytes;
    EXPECT_TRUE(closed.is_closed());
    EXPECT_EQ(closed.size(), 0U);
    EXPECT_EQ(closed.host_data(), nullptr);
    EXPECT_EQ(closed.device_address(), 0U);
    EXPECT_FALSE(closed.is_host_accessible());
    EXPECT_FALSE(closed.is_device_accessible());
    EXPECT_FALSE(closed.is_read_only());
    EXPECT_ERROR(closed.share(), Errc::closed, "share");
    EXPECT_ERROR(closed.slice(0, 0), Errc::closed, "slice");
    EXPECT_ERROR(closed.device(), Errc::closed, "device");
    EXPECT_ERROR(closed.memory_resource(), Errc::closed, "memory_resource");
    EXPECT_ERROR(closed.kind(), Errc::closed, "kind");
    EXPECT_ERROR(closed.location(), Errc::closed, "");
    EXPECT_ERROR(closed.copy_to(open, stream), Errc::closed, "copy");
    EXPECT_ERROR(closed.copy_to(stream), Errc::closed, "copy");
    EXPECT_ERROR(closed.copy_to(open, 0, 0, 0, stream), Errc::closed, "copy");
    EXPECT_ERROR(closed.copy_to(bytes, stream), Errc::closed, "copy");
    EXPECT_ERROR(closed.copy_from(open, stream), Errc::closed, "copy");
    EXPECT_ERROR(closed.copy_from(open, 0, 0, 0, stream), Errc::closed, "copy");
    EXPECT_ERROR(closed.copy_from(bytes, stream), Errc::closed, "copy");
    EXPECT_ERROR(open.copy_to(closed, stream), Errc::closed, "copy");
    EXPECT_ERROR(open.copy_from(closed, stream), Errc::closed, "copy");
    EXPECT_ERROR(closed.fill(std::uint8_t{0}, stream), Errc::closed, "fill");
    EXPECT_ERROR(closed.fill(std::uint8_t{0}, 0, 0, stream), Errc::closed, "fill");
    EXPECT_ERROR(closed.fill_pattern(0, 1, 0, 0, stream), Errc::closed, "fill");
    EXPECT_ERROR(closed.use_on(stream), Errc::closed, "use_on");
    EXPECT_ERROR((closed.view(u8, {0})), Errc::closed, "");
    EXPECT_ERROR(closed.ipc_descriptor(stream), Errc::closed, "");
  }
};
WEIR_FOR_EACH_MEMORY(Close);

TEST_P(Close, EveryOperationAfterwardsSaysClosed) {
  Buffer buffer = filled(pattern(100, 1));
  buffer.close();
  expect_closed(buffer);
  Buffer empty = resource->allocate(0, stream);
  empty.close();
  expect_closed(empty);
}

TEST_P(Close, MovedFromAndDefaultAreClosed) {
  Buffer buffer = filled(pattern(100, 1));
  Buffer moved = std::move(buffer);
  expect_closed(buffer);  // NOLINT(bugprone-use-after-move): that is the subject
  EXPECT_BYTES(read(moved, stream), pattern(100, 1));
  Buffer none;
  expect_closed(none);
  none.close();
  none.close(stream);
}

TEST_P(Close, IsIdempotent) {
  Buffer buffer = resource->allocate(100, stream);
  Buffer survivor = buffer.share();
  buffer.close();
  buffer.close();
  buffer.close(stream);
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  survivor.close(stream);
  survivor.close(stream);
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(Close, FromSeveralThreadsAtOnce) {
  const Stream other(device());
  for (int round = 0; round < 50; ++round) {
    Buffer buffer = resource->allocate(64, stream);
    const Buffer survivor = round % 2 ? buffer.share() : Buffer();
    constexpr int count = 4;
    std::latch start(count);
    std::atomic<int> thrown{0};
    std::vector<Thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        try {
          i % 2 ? buffer.close() : buffer.close(other);
        } catch (const std::exception&) {
          ++thrown;
        }
      });
    }
    for (Thread& thread : threads) thread.join();
    ASSERT_EQ(thrown, 0) << "round " << round;
    ASSERT_TRUE(buffer.is_closed());
    ASSERT_EQ(resource->stats().live_buffers, survivor.is_closed() ? 0U : 1U);  // one owner went, not two
  }
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(Close, SharesKeepTheMemory) {
  Buffer buffer = filled(pattern(1000, 2));
  Buffer first = buffer.share();
  Buffer second = first.share();
  buffer.close();
  first.close();
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  EXPECT_BYTES(read(second, stream), pattern(1000, 2));
  second.close();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(Close, SlicesKeepTheMemory) {
  Buffer buffer = filled(pattern(1000, 3));
  Buffer slice = buffer.slice(100, 500);
  Buffer inner = slice.slice(50, 100);
  buffer.close();
  slice.close();
  EXPECT_EQ(inner.offset(), 150U);
  inner.fill(std::uint8_t{9}, 0, 1, stream);
  Bytes model = part(pattern(1000, 3), 150, 100);
  model[0] = std::byte{9};
  EXPECT_BYTES(read(inner, stream), model);
}

TEST_P(Close, NeverBlocks) {
  Buffer buffer = resource->allocate(1000, stream);
  Gate gate;
  gate.hold(stream);
  buffer.fill(std::uint8_t{1}, stream);
  buffer.close();  // with the gate shut a call that waits would never return
  Buffer other = resource->allocate(1000, stream);
  other.close(stream);
  EXPECT_FALSE(stream.done());
  gate.open();
  stream.synchronize();
}

TEST_P(Close, AssignmentClosesWhatWasThere) {
  Buffer a = filled(pattern(10, 1));
  Buffer b = filled(pattern(10, 2));
  a = std::move(b);
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  EXPECT_BYTES(read(a, stream), pattern(10, 2));
  Buffer& same = a;
  a = std::move(same);
  EXPECT_BYTES(read(a, stream), pattern(10, 2));
}

TEST_P(Close, ByAnyThreadWithoutAStream) {
  Buffer buffer = filled(pattern(1000, 4));
  Thread([moved = std::move(buffer)]() mutable { moved.close(); }).join();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

}  // namespace
}  // namespace weir::test
