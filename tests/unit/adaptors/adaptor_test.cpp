// SPDX-License-Identifier: Apache-2.0
// What all adaptors share: their ends, and what they count.

#include "adaptors/adaptor.hpp"

#include <gtest/gtest.h>

#include "scripted.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

/// Nothing but the base.
class Plain final : public detail::Adaptor<MemoryResource> {
 public:
  explicit Plain(ResourcePtr upstream) : Adaptor(std::move(upstream), "plain") {}
  ~Plain() override { ++ended; }
  static inline std::atomic<int> ended{0};
};

class Adaptors : public testing::Test {
 protected:
  Adaptors() { Plain::ended = 0; }
  std::shared_ptr<Scripted> upstream = std::make_shared<Scripted>();
  std::shared_ptr<Plain> plain = detail::make_adaptor<Plain>(upstream);
  Stream stream{host_device()};
};

TEST_F(Adaptors, CountTheirOwnAndReserveNothing) {
  const auto other = detail::make_adaptor<Plain>(upstream);
  Buffer mine = plain->allocate(100, stream), theirs = other->allocate(1000, stream);
  const Buffer more = plain->allocate(50, stream), empty = plain->allocate(0, stream);
  mine.close();
  const ResourceStats stats = plain->stats();
  EXPECT_EQ(stats.in_use, 50U);
  EXPECT_EQ(stats.peak_in_use, 150U);
  EXPECT_EQ(stats.live_buffers, 1U);
  EXPECT_EQ(stats.allocations, 2U);
  EXPECT_EQ(stats.reserved, upstream->stats().reserved);
  EXPECT_EQ(stats.peak_reserved, upstream->stats().peak_reserved);
}

TEST_F(Adaptors, EndWithTheLastOfHandlesAndBuffers) {
  Buffer buffer = plain->allocate(100, stream);
  plain.reset();
  EXPECT_EQ(Plain::ended, 0);
  ResourcePtr again = buffer.memory_resource();
  EXPECT_EQ(again->name(), "plain(scripted)");
  EXPECT_EQ(again->stats().live_buffers, 1U);
  EXPECT_EQ(buffer.memory_resource(), again) << "one handle for all who ask";
  buffer.close();
  EXPECT_EQ(Plain::ended, 0);
  Buffer next = again->allocate(10, stream);
  again.reset();
  EXPECT_EQ(Plain::ended, 0);
  next.close();
  EXPECT_EQ(Plain::ended, 1);
  EXPECT_EQ(upstream.use_count(), 1);
}

TEST_F(Adaptors, ABufferOfZeroBytesKeepsThem) {
  Buffer empty = plain->allocate(0, stream);
  plain.reset();
  EXPECT_EQ(empty.memory_resource()->name(), "plain(scripted)");
  EXPECT_EQ(Plain::ended, 0);
  empty.close();
  EXPECT_EQ(Plain::ended, 1);
}

TEST_F(Adaptors, EightThreadsFindOneThatNobodyHolds) {
  Buffer buffer = plain->allocate(100, stream);
  plain.reset();
  std::vector<Thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([own = buffer.share()]() mutable {
      const Stream theirs(host_device());
      for (std::size_t i = 0; i < 500; ++i) {
        const ResourcePtr handle = own.memory_resource();
        const Buffer more = handle->allocate(1 + i, theirs);
        EXPECT_GE(handle->stats().in_use, 101 + i);
      }
      own.close();
    });
  }
  buffer.close();
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(Plain::ended, 1);
  EXPECT_EQ(upstream.use_count(), 1);
}

}  // namespace
}  // namespace weir::test
