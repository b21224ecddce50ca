// SPDX-License-Identifier: Apache-2.0
#pragma once
// tails/…: churn/1000 again, every operation timed by itself: the times that 1 % and 0.1 % of the allocations
// and of the frees exceed. What two stamps take around nothing is taken off.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "pool/churn.hpp"

namespace weir::bench {

/// The least of the times that at least this share of all do not exceed, less `off`. Reorders them.
inline double percentile(std::vector<std::int64_t>& times, double share, std::int64_t off) {
  const auto rank =
      std::min(times.size() - 1, static_cast<std::size_t>(share * static_cast<double>(times.size())));
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(times.begin(), at, times.end());
  return static_cast<double>(std::max<std::int64_t>(0, *at - off));
}

inline std::int64_t nanoseconds(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
}

/// What it takes to look at the clock, usually.
inline std::int64_t stamp_cost() {
  std::vector<std::int64_t> times(1001);
  for (auto& time : times) {
    const auto begin = Clock::now();
    time = nanoseconds(begin, Clock::now());
  }
  return static_cast<std::int64_t>(percentile(times, 0.5, 0));
}

template <Allocator A>
void add_tails(const Subject<A>& subject) {
  const auto body = [subject](benchmark::State& state) {
    const std::size_t count = subject.rounds(200'000);
    std::vector<std::int64_t> frees(count), allocations(count);
    const auto allocator = subject.make(0);
    const auto stream = allocator->stream();
    Churn<A> churn(*allocator, stream, Sizes::powers_of_two);
    const auto pass = [&] {
      for (std::size_t i = 0; i < count; ++i) {
        const auto begin = Clock::now();
        churn.free();
        const auto middle = Clock::now();
        churn.allocate();
        const auto end = Clock::now();
        frees[i] = nanoseconds(begin, middle);
        allocations[i] = nanoseconds(middle, end);
      }
    };
    pass();
    for (auto _ : state) pass();
    const auto off = stamp_cost();
    for (auto& [name, times] : {std::pair("allocate ", &allocations), std::pair("free ", &frees)}) {
      state.counters[name + std::string("p99_ns")] = percentile(*times, 0.99, off);
      state.counters[name + std::string("p99.9_ns")] = percentile(*times, 0.999, off);
    }
  };
  add_row(subject, "tails", body, Timed::loop, Rounds::one);
}

}  // namespace weir::bench
