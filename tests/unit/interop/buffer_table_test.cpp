// SPDX-License-Identifier: Apache-2.0
// Buffers by address, against a map that is known to be right.

#include "weir/interop/buffer_table.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <latch>
#include <map>
#include <random>
#include <vector>

#include "threads.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

const void* address(std::uint64_t number) {
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(number * 256));  // never read
}

class BufferTables : public testing::Test {
 protected:
  ResourcePtr pool = make_pool(host::make_pageable_resource());
  Stream stream{host_device()};
};

TEST_F(BufferTables, FindsEachBufferOnce) {
  BufferTable table;
  EXPECT_TRUE(table.take(address(1)).is_closed());
  table.insert(address(1), pool->allocate(10, stream));
  table.insert(address(2), pool->allocate(20, stream));
  EXPECT_EQ(table.size(), 2U);
  EXPECT_TRUE(table.take(address(3)).is_closed());
  EXPECT_EQ(table.take(address(2)).size(), 20U);
  EXPECT_TRUE(table.take(address(2)).is_closed());
  EXPECT_EQ(table.take(address(1)).size(), 10U);
  EXPECT_EQ(table.size(), 0U);
}

TEST_F(BufferTables, ItsEndClosesWhatItHolds) {
  {
    BufferTable table;
    for (std::uint64_t i = 1; i <= 100; ++i) table.insert(address(i), pool->allocate(10, stream));
    EXPECT_EQ(pool->stats().live_buffers, 100U);
  }
  EXPECT_EQ(pool->stats().live_buffers, 0U);
}

// Addresses are few, so that they meet in the same slots again and again, and gaps are closed among them.
TEST_F(BufferTables, AgreeWithAMap) {
  std::mt19937 random(7);
  for (const std::uint64_t addresses : {20U, 300U, 5000U}) {
    BufferTable table;
    std::map<std::uint64_t, std::size_t> model;
    for (std::size_t step = 0; step < 20000; ++step) {
      const std::uint64_t one = 1 + random() % addresses;
      if (const auto known = model.find(one); known != model.end()) {
        ASSERT_EQ(table.take(address(one)).size(), known->second) << "step " << step;
        model.erase(known);
      } else if (random() % 4 == 0) {
        ASSERT_TRUE(table.take(address(one)).is_closed()) << "step " << step;
      } else {
        const std::size_t bytes = 1 + step % 4096;
        table.insert(address(one), pool->allocate(bytes, stream));
        model.emplace(one, bytes);
      }
      ASSERT_EQ(table.size(), model.size());
    }
    for (const auto& [one, bytes] : model) ASSERT_EQ(table.take(address(one)).size(), bytes);
    EXPECT_EQ(pool->stats().live_buffers, 0U);
  }
}

TEST_F(BufferTables, EightThreadsShareOne) {
  BufferTable table;
  constexpr std::uint64_t times = 20000;
  std::latch begin(8);
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Stream own(host_device());
      begin.arrive_and_wait();
      for (std::uint64_t i = 1; i <= times; ++i) {
        table.insert(address(8 * i + t), pool->allocate(1 + t, own));
        if (i % 4 == 0) continue;
        EXPECT_EQ(table.take(address(8 * i + t)).size(), 1 + t) << i;
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  EXPECT_EQ(table.size(), 8 * times / 4);
}

}  // namespace
}  // namespace weir::test
