// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers that are the same for a seed with every compiler, unlike those of <random>'s distributions.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::test::random {

/// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15U + 0x5851f42d4c957f2dU) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31U);
  }
  /// 0 … count - 1; count > 0.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }
  /// from … to, both included.
  std::size_t between(std::size_t from, std::size_t to) { return from + below(to - from + 1); }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace weir::test::random
