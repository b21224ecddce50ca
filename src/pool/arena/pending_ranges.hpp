// SPDX-License-Identifier: Apache-2.0
#pragma once
// Free ranges that one stream may use at once, and all other streams once that stream has passed the value at which the
// range was closed. They are found by size for that stream, and by value for the others.

#include "pool/arena/free_ranges.hpp"
#include "weir/spi/point_queue.hpp"

namespace weir::pool {

class PendingRanges {
 public:
  [[nodiscard]] bool empty() const noexcept { return by_value_.empty(); }
  void insert(Range& range) noexcept {
    by_size_.insert(range);
    by_value_.insert(range);
  }
  void remove(Range& range) noexcept {
    by_size_.remove(range);
    by_value_.remove(range);
  }
  /// Return the range that other streams may have soonest. Must not be empty.
  [[nodiscard]] Range& first() const noexcept { return by_value_.first(); }
  /// Return the value after which other streams may have all ranges. Must not be empty.
  [[nodiscard]] std::uint64_t last() const noexcept { return by_value_.last().closed_at(); }

  // The following are as in FreeRanges.
  Range* take(std::uint64_t granules, FreeRanges::Search search, bool large) noexcept {
    return taken(by_size_.take(granules, search, large));
  }
  Range* take_whole(std::uint64_t granules) noexcept { return taken(by_size_.take_whole(granules)); }
  template <class F>
  void for_each(F function) const {
    by_size_.for_each(function);
  }

 private:
  struct Order {
    static std::uint64_t value(const Range& range) noexcept { return range.closed_at(); }
    static Range*& left(Range& range) noexcept { return range.sooner; }
    static Range*& right(Range& range) noexcept { return range.later; }
  };
  Range* taken(Range* range) noexcept {
    if (range) by_value_.remove(*range);
    return range;
  }

  FreeRanges by_size_;
  spi::PointQueue<Range, Order> by_value_;
};

}  // namespace weir::pool
