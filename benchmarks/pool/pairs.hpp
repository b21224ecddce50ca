// SPDX-License-Identifier: Apache-2.0
#pragma once
// pair/SIZE: memory of one size is allocated and given back at once, on one stream, by one thread.

#include "support/row.hpp"

namespace weir::bench {

template <Allocator A>
void add_pairs(const Subject<A>& subject) {
  for (const std::size_t bytes : {std::size_t{256}, 4 * kib, 64 * kib, mib, 64 * mib}) {
    add_row(subject, "pair/" + size_name(bytes), [subject, bytes](benchmark::State& state) {
      const auto made = subject.make(0);
      const A& allocator = *made;
      const auto stream = allocator.stream();
      for (std::size_t i = 0; i < subject.rounds(1000); ++i) allocator.pair(bytes, stream);
      for (auto _ : state) allocator.pair(bytes, stream);
    });
  }
}

}  // namespace weir::bench
