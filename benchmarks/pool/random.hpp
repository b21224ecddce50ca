// SPDX-License-Identifier: Apache-2.0
#pragma once
// random/N: RMM's random-allocation benchmark, N allocations of 1 byte to 1 MiB and their frees, at most 16
// 000 MiB live, or half of the device's memory. Told as the time of all of them, after one run that warms up.

#include <algorithm>

#include "pool/random_operations.hpp"
#include "support/live.hpp"
#include "support/row.hpp"
#include "weir/device.hpp"

namespace weir::bench {

template <Allocator A>
void add_random(const Subject<A>& subject, const Device& device) {
  std::size_t most_live = 16'000 * mib;
  if (device.total_memory() != 0) most_live = std::min(most_live, device.total_memory() / 2);
  for (const std::size_t count : {std::size_t{1000}, std::size_t{10'000}, std::size_t{100'000}}) {
    if (subject.slow && count > 1000) continue;
    auto& row = add_row(subject, "random/" + std::to_string(count), [=](benchmark::State& state) {
      const auto operations = random_operations(count, mib, most_live);
      const auto allocator = subject.make(0);
      Live<A> live(*allocator, allocator->stream(), most_live_buffers(operations));
      const auto round = [&] {
        std::size_t end = 0;
        for (const RandomOperation& operation : operations) {
          operation.bytes != 0 ? live.allocate(end++, operation.bytes)
                               : live.free_and_fill(operation.place, --end);
        }
      };
      round();
      for (auto _ : state) round();
      if (most_live < 16'000 * mib) state.SetLabel("at most " + size_name(most_live / mib * mib) + " live");
    });
    row.Unit(benchmark::kMillisecond);
  }
}

}  // namespace weir::bench
