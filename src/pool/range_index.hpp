// SPDX-License-Identifier: Apache-2.0
#pragma once
// Free ranges by size. Every operation costs the same however many there are: two-level segregated fit
// (Masmano, Ripoll, Crespo, Real: "TLSF", 2004) with 32 classes to a doubling.

#include <array>
#include <cstdint>

#include "pool/range.hpp"

namespace weir::pool {

class RangeIndex {
 public:
  void insert(Range& range) noexcept;
  void remove(Range& range) noexcept;
  enum class Search { quick, thorough };
  /// A range of at least `granules`, taken out, or null. Nearly the smallest: a quick search looks at a few of the
  /// request's own class and then at the larger classes, a thorough one at all of its own.
  Range* take(std::uint64_t granules, Search search) noexcept;
  [[nodiscard]] bool empty() const noexcept { return levels_ == 0; }
  /// Granules of the largest one; 0 when empty.
  [[nodiscard]] std::uint64_t largest() const noexcept;

  /// Call `function` on every range; it may remove that one.
  template <class F>
  void for_each(F function) const {
    for (Range* head : heads_) {
      while (head) {
        Range* const next = static_cast<Range*>(head->next);
        function(*head);
        head = next;
      }
    }
  }

 private:
  Range* best_of(unsigned list, std::uint64_t granules, Search search) const noexcept;
  static constexpr unsigned part_bits = 5, parts = 1U << part_bits;
  static constexpr unsigned most_levels = 34;  // up to 2^38 granules
  static unsigned list_of(std::uint64_t granules) noexcept;
  [[nodiscard]] unsigned next_list(unsigned list) const noexcept;

  std::uint64_t levels_ = 0;  // bit: some part of that level has a range
  std::array<std::uint32_t, most_levels> parts_{};
  std::array<Range*, most_levels * parts> heads_{};
};

}  // namespace weir::pool
