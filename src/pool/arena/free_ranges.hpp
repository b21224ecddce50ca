// SPDX-License-Identifier: Apache-2.0
#pragma once
// The free ranges of one owner. Those for small requests are kept apart from those for large requests, so that no small
// buffer keeps a lot of memory from going back.

#include <algorithm>

#include "pool/arena/range_index.hpp"
#include "pool/arena/region.hpp"

namespace weir::pool {

class FreeRanges {
 public:
  using Search = RangeIndex::Search;

  void insert(Range& range) noexcept { of(range).insert(range); }
  void remove(Range& range) noexcept { of(range).remove(range); }
  /// As RangeIndex::take, among the ranges for large requests or among those for small ones.
  Range* take(std::uint64_t granules, Search search, bool large) noexcept {
    return (large ? large_ : small_).take(granules, search);
  }
  /// The same for a large request that gets the whole range: one with at most an eighth more.
  Range* take_whole(std::uint64_t granules) noexcept {
    Range* const range = large_.take(granules, Search::thorough);
    if (!range || range->granules <= granules + granules / 8) return range;
    large_.insert(*range);
    return nullptr;
  }
  [[nodiscard]] std::uint64_t largest() const noexcept { return std::max(small_.largest(), large_.largest()); }
  [[nodiscard]] bool empty() const noexcept { return small_.empty() && large_.empty(); }
  template <class F>
  void for_each(F function) const {
    small_.for_each(function);
    large_.for_each(function);
  }
  /// As RangeIndex::from_largest: first the ranges for large requests, then the others.
  template <class F>
  void from_largest(std::uint64_t least, F function) const {
    bool goes_on = true;
    const auto each = [&](Range& range) { return goes_on = function(range); };
    large_.from_largest(least, each);
    if (goes_on) small_.from_largest(least, each);
  }

 private:
  RangeIndex& of(const Range& range) noexcept { return range.region->large ? large_ : small_; }

  RangeIndex small_, large_;
};

}  // namespace weir::pool
