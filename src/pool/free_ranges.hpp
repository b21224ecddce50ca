// SPDX-License-Identifier: Apache-2.0
#pragma once
// Free ranges of one owner: those of regions that are cut up, and those of regions that were made for one large request
// and serve only such again, so that no small buffer keeps much memory from going back.

#include <algorithm>

#include "pool/arena_region.hpp"
#include "pool/range_index.hpp"

namespace weir::pool {

class FreeRanges {
 public:
  using Search = RangeIndex::Search;

  void insert(Range& range) noexcept { of(range).insert(range); }
  void remove(Range& range) noexcept { of(range).remove(range); }
  /// As RangeIndex::take; for `large` requests among the latter, and then with at most an eighth more.
  Range* take(std::uint64_t granules, Search search, bool large) noexcept {
    if (!large) return cut_up_.take(granules, search);
    Range* const range = whole_.take(granules, Search::thorough);
    if (!range || range->granules <= granules + granules / 8) return range;
    whole_.insert(*range);
    return nullptr;
  }
  [[nodiscard]] std::uint64_t largest() const noexcept { return std::max(cut_up_.largest(), whole_.largest()); }
  [[nodiscard]] bool empty() const noexcept { return cut_up_.empty() && whole_.empty(); }
  template <class F>
  void for_each(F function) const {
    cut_up_.for_each(function);
    whole_.for_each(function);
  }

 private:
  RangeIndex& of(const Range& range) noexcept { return range.region->whole ? whole_ : cut_up_; }

  RangeIndex cut_up_, whole_;
};

}  // namespace weir::pool
