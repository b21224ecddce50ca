// SPDX-License-Identifier: Apache-2.0
#pragma once
// Free ranges by size. Every operation costs the same however many ranges there are: two-level segregated fit
// (Masmano, Ripoll, Crespo, Real: "TLSF", 2004) with 32 classes per doubling.

#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "pool/arena/range.hpp"

namespace weir::pool {

class RangeIndex {
 public:
  RangeIndex() noexcept {}  // NOLINT(modernize-use-equals-default): that would clear the heads

  void insert(Range& range) noexcept;
  void remove(Range& range) noexcept;
  enum class Search { quick, thorough };
  /// Take out a range of at least `granules`, nearly the smallest such; null when none is found. A quick search looks
  /// at a few ranges of the request's own class and then at the larger classes. A thorough search looks at all ranges
  /// of that class, but stops after 64 when one of these fits.
  Range* take(std::uint64_t granules, Search search) noexcept;
  [[nodiscard]] bool empty() const noexcept { return levels_ == 0; }
  /// Return the granules of the largest range; 0 when there is none.
  [[nodiscard]] std::uint64_t largest() const noexcept;

  /// Call `function` on every range; `function` may remove that range.
  template <class F>
  void for_each(F function) const {
    for (auto levels = levels_; levels != 0; levels &= levels - 1) {
      const auto level = static_cast<unsigned>(std::countr_zero(levels));
      for (auto in_level = parts_[level]; in_level != 0; in_level &= in_level - 1) {
        for (Range* range = heads_[level * parts + static_cast<unsigned>(std::countr_zero(in_level))]; range;) {
          function(*std::exchange(range, static_cast<Range*>(range->next)));
        }
      }
    }
  }
  /// Call `function` on the ranges of each list, from the largest list down to that of `least` granules, until it
  /// returns false. Some ranges of the last list may have less. The ranges stay where they are.
  template <class F>
  void from_largest(std::uint64_t least, F function) const {
    const auto lowest = list_of(least);
    for (auto levels = levels_; levels != 0;) {
      const auto level = static_cast<unsigned>(std::bit_width(levels)) - 1;
      levels &= ~(std::uint64_t{1} << level);
      for (auto in_level = parts_[level]; in_level != 0;) {
        const auto part = static_cast<unsigned>(std::bit_width(in_level)) - 1;
        in_level &= ~(std::uint32_t{1} << part);
        if (level * parts + part < lowest) return;
        for (Range* range = heads_[level * parts + part]; range; range = static_cast<Range*>(range->next)) {
          if (!function(*range)) return;
        }
      }
    }
  }

 private:
  [[nodiscard]] bool holds(unsigned list) const noexcept { return (parts_[list / parts] >> (list % parts) & 1U) != 0; }
  Range* best_of(unsigned list, std::uint64_t granules, Search search) const noexcept;
  static constexpr unsigned part_bits = 5, parts = 1U << part_bits;
  static constexpr unsigned most_levels = 34;  // up to 2^38 granules
  // Level 0 has one list for each number of granules below 32. Level n has the sizes from 2^(n+4) granules on.
  static unsigned list_of(std::uint64_t granules) noexcept {
    const auto low = static_cast<unsigned>(std::bit_width(granules | parts)) - 1 - part_bits;
    return low * parts + static_cast<unsigned>(granules >> low);
  }
  [[nodiscard]] unsigned next_list(unsigned list) const noexcept;

  std::uint64_t levels_ = 0;  // bit n: some list of level n has a range
  std::array<std::uint32_t, most_levels> parts_{};
  std::array<Range*, most_levels * parts> heads_;  // set only where a list holds any, so a new index touches few pages
};

}  // namespace weir::pool
