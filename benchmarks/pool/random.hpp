// SPDX-License-Identifier: Apache-2.0
#pragma once
// random/N: RMM's random-allocation benchmark, N allocations of 1 byte to 1 MiB and their frees, at most 16
// 000 MiB live, or half of the device's memory. Told as the time of all of them, after one run that warms up.

#include <algorithm>
#include <string>
#include <vector>

#include "support/live.hpp"
#include "support/random_operations.hpp"
#include "support/row.hpp"
#include "weir/device.hpp"

namespace weir::bench {

inline constexpr std::size_t most_live_of_rmm = 16'000 * mib;

inline std::size_t most_live_bytes(const Device& device) {
  const std::size_t total = device.total_memory();
  return total != 0 ? std::min(most_live_of_rmm, total / 2) : most_live_of_rmm;
}

/// Do all operations once.
template <Allocator A>
void run_random(Live<A>& live, const std::vector<RandomOperation>& operations) {
  std::size_t end = 0;
  for (const RandomOperation& operation : operations) {
    operation.bytes != 0 ? live.allocate(end++, operation.bytes) : live.free_and_fill(operation.place, --end);
  }
}

inline void label_random(benchmark::State& state, std::size_t most_live) {
  if (most_live < most_live_of_rmm) state.SetLabel("at most " + size_name(most_live / mib * mib) + " live");
}

/// `count` allocations of 1 byte to `most_bytes`, and their frees, warm.
template <Allocator A>
void add_random(const Subject<A>& subject, const Device& device, const std::string& what, std::size_t count,
                std::size_t most_bytes) {
  const std::size_t most_live = most_live_bytes(device);
  auto& row = add_row(subject, what, [=](benchmark::State& state) {
    const auto operations = random_operations(count, most_bytes, most_live);
    const auto allocator = subject.make(0);
    Live<A> live(*allocator, allocator->stream(), most_live_buffers(operations));
    run_random(live, operations);
    for (auto _ : state) run_random(live, operations);
    label_random(state, most_live);
  });
  row.Unit(benchmark::kMillisecond);
}

/// The same by a new allocator that has nothing ready. The time includes making it.
template <Allocator A>
void add_random_new(const Subject<A>& subject, const Device& device, const std::string& what, std::size_t count,
                    std::size_t most_bytes) {
  const std::size_t most_live = most_live_bytes(device);
  const auto body = [=](benchmark::State& state) {
    const auto operations = random_operations(count, most_bytes, most_live);
    for (auto _ : state) {
      const auto begin = Clock::now();
      const auto allocator = subject.make(0);
      Live<A> live(*allocator, allocator->stream(), most_live_buffers(operations));
      run_random(live, operations);
      state.SetIterationTime(seconds_since(begin));
    }
    label_random(state, most_live);
  };
  add_row(subject, what, body, Timed::by_itself, Rounds::one).Unit(benchmark::kMillisecond);
}

template <Allocator A>
void add_random(const Subject<A>& subject, const Device& device) {
  for (const std::size_t count : {std::size_t{1000}, std::size_t{10'000}, std::size_t{100'000}}) {
    if (count > (subject.slow ? 1000 : subject.most_random)) continue;
    add_random(subject, device, "random/" + std::to_string(count), count, mib);
  }
}

}  // namespace weir::bench
