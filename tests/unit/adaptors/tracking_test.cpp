// SPDX-License-Identifier: Apache-2.0
// What lives, in order, with its origin; and what is told when the last handle goes.

#include "weir/adaptors/tracking.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "expect.hpp"
#include "scripted.hpp"
#include "sink.hpp"
#include "threads.hpp"
#include "weir/adaptors/limiting.hpp"

namespace weir::test {
namespace {

class Trackers : public testing::Test {
 protected:
  std::shared_ptr<Scripted> upstream = std::make_shared<Scripted>();
  TrackingPtr tracking = make_tracking(upstream);
  Stream stream{host_device()};
};

TEST_F(Trackers, KnowsWhatLivesOldestFirst) {
  Buffer a = tracking->allocate(100, stream), b = tracking->allocate(200, stream, 1024);
  const Buffer empty = tracking->allocate(0, stream), c = tracking->allocate(300, stream);
  const Buffer share = a.share(), part = b.slice(10, 10);
  a.close();
  b.close();
  auto live = tracking->outstanding();
  ASSERT_EQ(live.size(), 3U) << "shares and slices keep theirs";
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(live[i].number, i + 1);
    EXPECT_EQ(live[i].bytes, 100 * (i + 1));
    EXPECT_EQ(live[i].stream, stream.id());
    EXPECT_TRUE(live[i].stack.empty());
  }
  EXPECT_EQ(live[1].alignment, 1024U);
  EXPECT_EQ(live[1].to_string(), "buffer 2: 200 bytes, alignment 1024, stream " + std::to_string(stream.id()));
  EXPECT_EQ(tracking->name(), "tracking(scripted)");
  EXPECT_ERROR(make_tracking(nullptr), Errc::invalid_argument, "upstream");
}

TEST_F(Trackers, WhatIsClosedOrRefusedIsForgotten) {
  tracking->allocate(100, stream).close();
  upstream->follow([](const auto&) { return false; });
  EXPECT_FALSE(tracking->try_allocate(100, stream).has_value());
  upstream->follow([](const auto&) -> bool { throw Error(Errc::device_lost, "gone"); });
  EXPECT_ERROR(tracking->allocate(100, stream), Errc::device_lost, "gone");
  EXPECT_TRUE(tracking->outstanding().empty());
  EXPECT_EQ(tracking->stats().live_buffers, 0U);
}

TEST_F(Trackers, ABlockThatIsUsedAgainAtOnceIsAnotherBuffer) {
  Buffer first = tracking->allocate(100, stream), second;
  const spi::Block* const block = first.block();
  upstream->when_returned([&] { second = tracking->allocate(200, stream); });
  first.close();
  ASSERT_EQ(second.block(), block);
  ASSERT_EQ(tracking->outstanding().size(), 1U);
  EXPECT_EQ(tracking->outstanding()[0].bytes, 200U);
}

__attribute__((noinline)) Buffer allocate_here(const TrackingPtr& from, const Stream& stream) {
  Buffer made = from->allocate(64, stream);
  asm volatile("" ::: "memory");  // not the last call, so that this function is on the stack
  return made;
}

TEST_F(Trackers, KeepsTheStackOfTheAllocation) {
  const auto deep = make_tracking(upstream, {.stack_depth = 32});
  const Buffer buffer = allocate_here(deep, stream);
  const auto live = deep->outstanding();
  ASSERT_EQ(live.size(), 1U);
  const auto& stack = live[0].stack;
  EXPECT_GE(stack.size(), 3U);
  EXPECT_LE(stack.size(), 32U);
  const auto begin = reinterpret_cast<std::uintptr_t>(&allocate_here);
  EXPECT_TRUE(std::ranges::any_of(stack, [&](void* address) {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return at > begin && at < begin + 1024;
  })) << live[0].to_string();
  EXPECT_NE(live[0].to_string().find(", allocated at "), std::string::npos) << live[0].to_string();
  EXPECT_NE(live[0].to_string().find(" < "), std::string::npos) << live[0].to_string();
  const auto whole = make_tracking(upstream, {.stack_depth = SIZE_MAX});
  const Buffer third = allocate_here(whole, stream);
  const auto all = whole->outstanding();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_GE(all[0].stack.size(), stack.size());
  EXPECT_LT(all[0].stack.size(), 1000U);
  const auto shallow = make_tracking(upstream, {.stack_depth = 2});
  const Buffer other = shallow->allocate(1, stream);
  EXPECT_EQ(shallow->outstanding()[0].stack.size(), 2U);
}

TEST_F(Trackers, FunctionsOfOtherLibrariesAreNamed) {
  const TrackedBuffer buffer{1, 2, 3, 4, {reinterpret_cast<void*>(&std::qsort)}};
  EXPECT_NE(buffer.to_string().find("qsort+0x0"), std::string::npos) << buffer.to_string();
  const TrackedBuffer nowhere{1, 2, 3, 4, {reinterpret_cast<void*>(16)}};
  EXPECT_NE(nowhere.to_string().find("allocated at 0x10"), std::string::npos) << nowhere.to_string();
}

TEST_F(Trackers, TheEndOfTheLastHandleTellsWhatLivesOn) {
  std::vector<Buffer> left;
  for (std::size_t i = 1; i <= 10; ++i) left.push_back(tracking->allocate(i, stream));
  TrackingPtr second = tracking;
  tracking.reset();
  EXPECT_TRUE(take_reports().empty()) << "there is another handle";
  second.reset();
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 9U);
  EXPECT_EQ(reports[0].where, "tracking(scripted)");
  EXPECT_EQ(reports[0].message, "10 buffers of 55 bytes live on after the last handle of their resource");
  EXPECT_EQ(reports[1].message.rfind("buffer 1: 1 bytes", 0), 0U) << reports[1].message;
  EXPECT_EQ(reports[8].message.rfind("buffer 8: 8 bytes", 0), 0U) << reports[8].message;
}

TEST_F(Trackers, EachIsToldOnce) {
  Buffer first = tracking->allocate(10, stream);
  tracking.reset();
  EXPECT_EQ(take_reports().size(), 2U);
  const Buffer twin = first.copy_to(stream);  // by way of a new handle, which ends at once
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[1].message.rfind("buffer 2", 0), 0U) << reports[1].message;
  ASSERT_NE(std::dynamic_pointer_cast<TrackingResource>(first.memory_resource()), nullptr);
  EXPECT_TRUE(take_reports().empty());
}

TEST_F(Trackers, NothingIsToldWithoutALeakOrWhenNotWanted) {
  tracking->allocate(10, stream).close();
  tracking.reset();
  auto silent = make_tracking(upstream, {.report_leaks = false});
  const Buffer kept = silent->allocate(10, stream);
  silent.reset();
  auto below = make_tracking(upstream);
  auto above = make_limiting(std::exchange(below, nullptr), 100);
  Buffer last = above->allocate(10, stream);
  above.reset();
  last.close();  // ends the limit first, and with it the handle of tracking
  EXPECT_TRUE(take_reports().empty());
}

TEST_F(Trackers, EightThreads) {
  std::vector<Buffer> kept(8);
  std::vector<Thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Stream own(host_device());
      for (std::size_t i = 0; i < 1000; ++i) {
        kept[t] = tracking->allocate(1 + t, own);  // the one before is closed after that
        if (i % 100 == 0) {
          EXPECT_LE(tracking->outstanding().size(), 16U);
        }
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  std::size_t bytes = 0;
  for (const TrackedBuffer& buffer : tracking->outstanding()) bytes += buffer.bytes;
  EXPECT_EQ(tracking->outstanding().size(), 8U);
  EXPECT_EQ(bytes, 36U);
  kept.clear();
  EXPECT_TRUE(tracking->outstanding().empty());
}

}  // namespace
}  // namespace weir::test
