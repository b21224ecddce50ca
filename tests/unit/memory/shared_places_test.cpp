// SPDX-License-Identifier: Apache-2.0
#include "memory/shared_places.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace weir {
namespace {

using detail::SharedPlaces;
using SegmentRef = spi::Ref<spi::Segment>;

struct CountedSegment final : spi::Segment {
  explicit CountedSegment(int& count) : alive(count) { ++alive; }
  ~CountedSegment() override { --alive; }
  int& alive;
};

class SharedPlacesTest : public testing::Test {
 protected:
  ~SharedPlacesTest() override {
    places.reset();
    EXPECT_EQ(alive, 0) << "segments";
  }
  SegmentRef segment() { return SegmentRef::adopt(new CountedSegment(alive)); }
  SegmentRef add(std::uint64_t id, std::size_t begin, std::size_t end) {
    auto made = segment();
    EXPECT_FALSE(places->add_run(id, begin, end, made));
    return made;
  }

  int alive = 0;
  std::optional<SharedPlaces> places{std::in_place};
};

TEST_F(SharedPlacesTest, RunsAreFoundByBothEnds) {
  const auto one = add(1, 10, 30), two = add(2, 10, 40), three = add(3, 20, 40);
  EXPECT_EQ(places->find_run(10, 30).get(), one.get());
  EXPECT_EQ(places->find_run(10, 40).get(), two.get());
  EXPECT_EQ(places->find_run(20, 40).get(), three.get());
  EXPECT_FALSE(places->find_run(10, 20));
  EXPECT_FALSE(places->find_run(20, 30));
  EXPECT_EQ(places->find(2), 10U);
  EXPECT_EQ(places->find(3), 20U);
  EXPECT_EQ(places->find(4), std::nullopt);
}

TEST_F(SharedPlacesTest, WhatContainsAPlaceIsForgotten) {
  add(1, 0, 20), add(2, 10, 20), add(3, 20, 40);
  places->add_page(4, 0, 10);
  places->add_page(5, 10, 20);
  places->add_page(6, 30, 40);
  int forgotten = 0;
  while (places->forget_run(10)) ++forgotten;
  places->forget_page(10);
  EXPECT_EQ(forgotten, 2);
  for (const std::uint64_t gone : {1, 2, 5}) EXPECT_EQ(places->find(gone), std::nullopt) << gone;
  for (const std::uint64_t left : {3, 4, 6}) EXPECT_NE(places->find(left), std::nullopt) << left;
  places->forget_page(25);  // behind one page, and before the next
  EXPECT_FALSE(places->forget_run(40));
  EXPECT_EQ(places->find(6), 30U);
  EXPECT_EQ(places->find(4), 0U);
}

TEST_F(SharedPlacesTest, TheOldestRunMakesRoom) {
  add(1, 0, 20);
  add(2, 1, 20);
  for (std::size_t i = 2; i < SharedPlaces::most_runs; ++i) add(i + 1, i * 10, i * 10 + 20);
  places->add_page(9'000'000, 0, 10);
  EXPECT_TRUE(places->find_run(0, 20));
  const auto newest = segment();
  const auto dropped = places->add_run(1'000'000, 5, 15, newest);
  ASSERT_TRUE(dropped);
  EXPECT_FALSE(places->find_run(0, 20));
  EXPECT_EQ(places->find(1), std::nullopt);
  EXPECT_TRUE(places->find_run(1, 20));
  EXPECT_EQ(places->find_run(5, 15).get(), newest.get());
  EXPECT_EQ(places->find(9'000'000), 0U) << "pages do not count";
}

// Against a list that is searched from one end to the other.
TEST_F(SharedPlacesTest, AreThoseOfAPlainList) {
  struct Known {
    std::uint64_t id;
    std::size_t begin, end;
    spi::Segment* segment;  // null: a page
  };
  std::vector<Known> model;
  std::mt19937 random(1);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  const auto contains = [](const Known& one, std::size_t at) { return one.begin <= at && at < one.end; };
  constexpr std::size_t unit = 4, count = 32;
  for (std::uint64_t id = 1; id < 20'000; ++id) {
    const std::size_t begin = below(count) * unit;
    switch (below(3)) {
      case 0: {
        const auto overlaps = [&](const Known& one) { return !one.segment && contains(one, begin); };
        if (std::ranges::any_of(model, overlaps)) break;
        places->add_page(id, begin, begin + unit);
        model.push_back({id, begin, begin + unit, nullptr});
        break;
      }
      case 1: {
        const std::size_t end = begin + (2 + below(below(16) == 0 ? 20 : 3)) * unit;
        if (places->find_run(begin, end)) break;
        auto made = segment();
        model.push_back({id, begin, end, made.get()});
        ASSERT_FALSE(places->add_run(id, begin, end, std::move(made)));
        break;
      }
      default: {
        const std::size_t at = begin + below(unit);
        places->forget_page(at);
        while (const auto run = places->forget_run(at)) {
          const auto is = [&](const Known& one) { return one.segment == run.get(); };
          const auto known = std::ranges::find_if(model, is);
          ASSERT_NE(known, model.end());
          ASSERT_TRUE(contains(*known, at));
          model.erase(known);
        }
        std::erase_if(model, [&](const Known& one) { return !one.segment && contains(one, at); });
        ASSERT_TRUE(std::ranges::none_of(model, [&](const Known& one) { return contains(one, at); }));
      }
    }
    for (const Known& one : model) {
      ASSERT_EQ(places->find(one.id), one.begin);
      if (one.segment) {
        ASSERT_EQ(places->find_run(one.begin, one.end).get(), one.segment);
      }
    }
    ASSERT_EQ(places->find(id + 1), std::nullopt);
  }
}

}  // namespace
}  // namespace weir
