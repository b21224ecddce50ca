// SPDX-License-Identifier: Apache-2.0
#pragma once
// growth/SIZE: 256 MiB in buffers of one size from a new allocator that has nothing. Told as the time of one
// allocation.

#include "support/live.hpp"
#include "support/row.hpp"

namespace weir::bench {

template <Allocator A>
void add_growth(const Subject<A>& subject) {
  constexpr std::size_t total = 256 * mib;
  for (const std::size_t bytes : {4 * kib, 2 * mib}) {
    if (subject.slow && bytes < mib) continue;
    const auto body = [=](benchmark::State& state) {
      for (auto _ : state) {
        const auto allocator = subject.make(0);
        Live<A> live(*allocator, allocator->stream(), total / bytes);
        const auto begin = Clock::now();
        for (std::size_t i = 0; i < live.size(); ++i) live.allocate(i, bytes);
        state.SetIterationTime(seconds_since(begin));
      }
      time_each(state, total / bytes);
    };
    add_row(subject, "growth/" + size_name(bytes), body, Timed::by_itself);
  }
}

}  // namespace weir::bench
