// SPDX-License-Identifier: Apache-2.0
#pragma once
// orders/same, orders/reverse, orders/shuffle: a thousand buffers of mixed sizes are allocated and then
// freed, first first, last first, or at random. Told as the time of one allocation and one free.

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "pool/sizes.hpp"
#include "support/live.hpp"
#include "support/row.hpp"

namespace weir::bench {

inline std::vector<std::size_t> free_order(const std::string& name, std::size_t count) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (name == "reverse") std::reverse(order.begin(), order.end());
  if (name == "shuffle") std::shuffle(order.begin(), order.end(), std::mt19937(1));
  return order;
}

template <Allocator A>
void add_orders(const Subject<A>& subject) {
  for (const std::string name : {"same", "reverse", "shuffle"}) {
    add_row(subject, "orders/" + name, [subject, name](benchmark::State& state) {
      constexpr std::size_t count = 1000;
      const auto order = free_order(name, count);
      const auto steps = draw_steps(count, Sizes::any);
      const auto allocator = subject.make(0);
      Live<A> live(*allocator, allocator->stream(), count);
      const auto round = [&] {
        for (std::size_t i = 0; i < count; ++i) live.allocate(i, steps[i].bytes);
        for (const std::size_t which : order) live.free(which);
      };
      for (std::size_t i = 0; i < subject.rounds(10); ++i) round();
      for (auto _ : state) round();
      time_each(state, count);
    });
  }
}

}  // namespace weir::bench
