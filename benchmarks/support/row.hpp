// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of the table: how one is named, registered and counted. table.py reads what comes out.
//
// A row is "backend/what", and a benchmark of it "backend/what/allocator". What it measured is, in this
// order: each of its counters whose name ends in _ns, _bytes or _ratio, as a row of its own; time_each();
// items per second; its time.

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "allocator.hpp"

namespace weir::bench {

inline constexpr std::size_t kib = 1024, mib = 1024 * kib;

/// "256B", "64KiB", "2MiB".
[[nodiscard]] std::string size_name(std::size_t bytes);

enum class Timed {
  loop,       ///< all of the loop over the state
  by_itself,  ///< what the body says with State::SetIterationTime
};
enum class Rounds {
  enough,  ///< as many iterations as fill the time of a row
  one,     ///< a single one, which is long enough
};
using Body = std::function<void(benchmark::State&)>;

/// Register a benchmark. What `body` throws is why the row was not run.
benchmark::internal::Benchmark& add_row(const std::string& name, Body body, Timed timed = Timed::loop,
                                        Rounds rounds = Rounds::enough);

template <Allocator A>
benchmark::internal::Benchmark& add_row(const Subject<A>& subject, const std::string& what, Body body,
                                        Timed timed = Timed::loop, Rounds rounds = Rounds::enough) {
  return add_row(subject.backend + '/' + what + '/' + subject.name, std::move(body), timed, rounds);
}

/// Say that an iteration does so many things of which the row tells the time of one.
inline void time_each(benchmark::State& state, std::size_t things) {
  using Counter = benchmark::Counter;
  state.counters["seconds_each"] =
      Counter(static_cast<double>(things), Counter::kIsIterationInvariantRate | Counter::kInvert);
}

/// A clock for Timed::by_itself and for single operations.
using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Call before benchmark::Initialize: rows then run for a twentieth of a second each, unless the arguments
/// say.
void choose_min_time(int argc, char** argv);

}  // namespace weir::bench
