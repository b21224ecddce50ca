// SPDX-License-Identifier: Apache-2.0
#pragma once
// Time stamps around one operation, as cheap as the machine has them.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace weir::replay {

/// The monotonic clock of the system.
struct SystemClock {
  static constexpr const char* name = "the system's monotonic clock";
  static bool usable() noexcept { return true; }
  static std::uint64_t begin() noexcept {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds{1});
  }
  static std::uint64_t end() noexcept { return begin(); }
};

#if defined(__x86_64__)
/// The processor's counter, fenced on both sides: no part of the operation moves out from between the two stamps, and
/// nothing around it moves in.
struct CycleClock {
  static constexpr const char* name = "the processor's time stamp counter";
  /// Return whether the counter runs at one speed in all states of the processor.
  static bool usable() noexcept {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned invariant = 1U << 8U;
    return __get_cpuid(0x80000007U, &a, &b, &c, &d) != 0 && (d & invariant) != 0;
  }
  static std::uint64_t begin() noexcept {
    _mm_lfence();
    const auto now = __rdtsc();
    _mm_lfence();
    return now;
  }
  static std::uint64_t end() noexcept {
    unsigned processor = 0;
    const auto now = __rdtscp(&processor);
    _mm_lfence();
    return now;
  }
};
#else
using CycleClock = SystemClock;
#endif

/// Return the ticks between two stamps with nothing between them: the median of many pairs.
template <class Clock>
std::uint64_t stamp_cost() noexcept {
  std::array<std::uint64_t, 1001> samples;
  for (int warm = 0; warm < 2; ++warm) {
    for (auto& sample : samples) {
      const auto begin = Clock::begin();
      sample = Clock::end() - begin;
    }
  }
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  return samples[samples.size() / 2];
}

/// The length of a tick, by comparison with the system's clock from construction on.
template <class Clock>
class Calibration {
 public:
  /// Return the nanoseconds per tick. Reads the clocks until at least 10 ms have passed since construction.
  [[nodiscard]] double nanoseconds_per_tick() const noexcept {
    constexpr std::uint64_t least = 10'000'000;
    std::uint64_t time = 0, ticks = 0;
    do {
      time = SystemClock::begin() - time_;
      ticks = Clock::end() - ticks_;
    } while (time < least);
    return ticks == 0 ? 1.0 : static_cast<double>(time) / static_cast<double>(ticks);
  }

 private:
  std::uint64_t time_ = SystemClock::begin();
  std::uint64_t ticks_ = Clock::begin();
};

}  // namespace weir::replay
