// SPDX-License-Identifier: Apache-2.0
// Figures of the whole life and of scopes that nest, overlap and end anywhere.

#include "weir/adaptors/statistics.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "expect.hpp"
#include "scripted.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

void expect_counter(const Counter& counter, std::ptrdiff_t current, std::ptrdiff_t peak, std::uint64_t total) {
  EXPECT_EQ(counter.current, current);
  EXPECT_EQ(counter.peak, peak);
  EXPECT_EQ(counter.total, total);
}

class StatisticsOf : public testing::Test {
 protected:
  std::shared_ptr<Scripted> upstream = std::make_shared<Scripted>();
  StatisticsPtr counted = make_statistics(upstream);
  Stream stream{host_device()};
};

TEST_F(StatisticsOf, TheWholeLife) {
  Buffer a = counted->allocate(100, stream), b = counted->allocate(50, stream);
  a.close();
  const Buffer c = counted->allocate(30, stream);
  const auto now = counted->statistics();
  expect_counter(now.bytes, 80, 150, 180);
  expect_counter(now.buffers, 2, 2, 3);
  EXPECT_EQ(now.refused, 0U);
  EXPECT_EQ(counted->name(), "statistics(scripted)");
  EXPECT_ERROR(make_statistics(nullptr), Errc::invalid_argument, "upstream");
}

TEST_F(StatisticsOf, RefusalsAreCountedAndNothingElseOfThem) {
  upstream->follow([](const auto&) { return false; });
  EXPECT_FALSE(counted->try_allocate(100, stream).has_value());
  EXPECT_THROW((void)counted->allocate(100, stream), OutOfMemory);
  EXPECT_EQ(counted->statistics().refused, 2U);
  expect_counter(counted->statistics().bytes, 0, 0, 0);
  expect_counter(counted->statistics().buffers, 0, 0, 0);
}

TEST_F(StatisticsOf, AScopeCountsTheRefusalsSinceItBegan) {
  upstream->follow([](const auto&) { return false; });
  EXPECT_FALSE(counted->try_allocate(100, stream).has_value());
  const StatisticsScope scope(counted);
  EXPECT_EQ(scope.statistics().refused, 0U);
  EXPECT_FALSE(counted->try_allocate(100, stream).has_value());
  EXPECT_EQ(scope.statistics().refused, 1U);
  EXPECT_EQ(counted->statistics().refused, 2U);
}

TEST_F(StatisticsOf, AScopeBeginsAtZeroAndMayGoBelow) {
  Buffer before = counted->allocate(1000, stream);
  const StatisticsScope scope(counted);
  expect_counter(scope.statistics().bytes, 0, 0, 0);
  Buffer inside = counted->allocate(10, stream);
  before.close();
  const auto now = scope.statistics();
  expect_counter(now.bytes, -990, 10, 10);
  expect_counter(now.buffers, 0, 1, 1);
}

TEST_F(StatisticsOf, APeakBelongsToTheScopesInWhichItWas) {
  (void)counted->allocate(500, stream);
  std::optional<StatisticsScope> outer(counted);
  (void)counted->allocate(200, stream);
  {
    const StatisticsScope inner(counted);
    (void)counted->allocate(300, stream);
    expect_counter(inner.statistics().bytes, 0, 300, 300);
  }
  const StatisticsScope later(counted);
  (void)counted->allocate(100, stream);
  expect_counter(later.statistics().bytes, 0, 100, 100);
  expect_counter(outer->statistics().bytes, 0, 300, 600);
  expect_counter(counted->statistics().bytes, 0, 500, 1100);
}

TEST_F(StatisticsOf, ScopesMayOverlap) {
  std::optional<StatisticsScope> first(counted);
  const Buffer a = counted->allocate(100, stream);
  std::optional<StatisticsScope> second(counted);
  (void)counted->allocate(50, stream);
  first.reset();  // before the second, which began later
  (void)counted->allocate(70, stream);
  expect_counter(second->statistics().bytes, 0, 70, 120);
  expect_counter(counted->statistics().bytes, 100, 170, 220);
}

TEST_F(StatisticsOf, PushedCountersNest) {
  const Buffer before = counted->allocate(1000, stream);
  counted->push_counters();
  const Buffer a = counted->allocate(100, stream);
  counted->push_counters();
  (void)counted->allocate(40, stream);
  const StatisticsScope unrelated(counted);  // is not popped by others
  expect_counter(counted->statistics().bytes, 0, 40, 40);
  expect_counter(counted->pop_counters().bytes, 0, 40, 40);
  expect_counter(counted->statistics().bytes, 100, 140, 140);
  expect_counter(counted->pop_counters().bytes, 100, 140, 140);
  expect_counter(counted->statistics().bytes, 1100, 1140, 1140);
  EXPECT_ERROR(counted->pop_counters(), Errc::invalid_argument, "pushed");
  expect_counter(unrelated.statistics().bytes, 0, 0, 0);
}

TEST_F(StatisticsOf, AScopeKeepsItsResource) {
  std::weak_ptr<StatisticsResource> observed = counted;
  {
    const StatisticsScope scope(std::exchange(counted, nullptr));
    EXPECT_FALSE(observed.expired());
    expect_counter(scope.statistics().bytes, 0, 0, 0);
  }
  EXPECT_TRUE(observed.expired());
  EXPECT_ERROR(StatisticsScope(nullptr), Errc::invalid_argument, "null");
}

TEST_F(StatisticsOf, EightThreadsAreCountedExactly) {
  constexpr std::size_t rounds = 2000;
  const StatisticsScope whole(counted);
  std::vector<Thread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Stream own(host_device());
      for (std::size_t i = 0; i < rounds; ++i) {
        std::optional<StatisticsScope> scope;
        if (i % 16 == t) scope.emplace(counted);
        const Buffer kept = counted->allocate(10 + t, own);
        if (scope) {
          EXPECT_GE(scope->statistics().bytes.peak, static_cast<std::ptrdiff_t>(10 + t) - 7 * 17);
          EXPECT_GE(scope->statistics().buffers.total, 1U);
        }
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  const auto now = whole.statistics();
  EXPECT_EQ(now.bytes.current, 0);
  EXPECT_EQ(now.bytes.total, rounds * (8 * 10 + 28));
  EXPECT_EQ(now.buffers.total, 8 * rounds);
  EXPECT_GE(now.bytes.peak, 17);
  EXPECT_LE(now.bytes.peak, 8 * 10 + 28);
  EXPECT_GE(now.buffers.peak, 1);
  EXPECT_LE(now.buffers.peak, 8);
}

}  // namespace
}  // namespace weir::test
