// SPDX-License-Identifier: Apache-2.0
#include "pool/arena/range_index.hpp"

#include <algorithm>
#include <bit>

namespace weir::pool {
namespace {

constexpr int looked_at = 4;  // ranges of the request's own class, some of which are too small
constexpr int looked_at_thoroughly = 64;  // then a thorough search stops, if it has found one
constexpr unsigned none = ~0U;

}  // namespace

void RangeIndex::insert(Range& range) noexcept {
  const auto list = list_of(range.granules);
  Range* const head = holds(list) ? heads_[list] : nullptr;
  range.previous = nullptr;
  range.next = head;
  if (head) head->previous = &range;
  heads_[list] = &range;
  parts_[list / parts] |= 1U << (list % parts);
  levels_ |= std::uint64_t{1} << (list / parts);
}

void RangeIndex::remove(Range& range) noexcept {
  auto* const next = static_cast<Range*>(range.next);
  if (next) next->previous = range.previous;
  if (range.previous) {
    range.previous->next = next;
  } else {
    const auto list = list_of(range.granules);
    heads_[list] = next;
    if (!next && (parts_[list / parts] &= ~(1U << (list % parts))) == 0) {
      levels_ &= ~(std::uint64_t{1} << (list / parts));
    }
  }
  range.next = nullptr;
  range.previous = nullptr;
}

// Return the first non-empty list after `list`, or `none`.
unsigned RangeIndex::next_list(unsigned list) const noexcept {
  const auto level = list / parts, part = list % parts;
  const std::uint32_t above = part + 1 == parts ? 0 : parts_[level] & (~std::uint32_t{0} << (part + 1));
  if (above != 0) return level * parts + static_cast<unsigned>(std::countr_zero(above));
  const std::uint64_t levels = levels_ & (~std::uint64_t{0} << level << 1);
  if (levels == 0) return none;
  const auto found = static_cast<unsigned>(std::countr_zero(levels));
  return found * parts + static_cast<unsigned>(std::countr_zero(parts_[found]));
}

Range* RangeIndex::take(std::uint64_t granules, Search search) noexcept {
  if (levels_ == 0) return nullptr;
  const auto list = list_of(granules);
  Range* range = holds(list) ? best_of(list, granules, search) : nullptr;
  if (!range) {
    const auto next = next_list(list);
    if (next == none) return nullptr;
    range = best_of(next, granules, search);
    if (!range) return nullptr;  // the last list has no upper end
  }
  remove(*range);
  return range;
}

// Return from one list the first range that is large enough; in a thorough search, the smallest such that it sees.
Range* RangeIndex::best_of(unsigned list, std::uint64_t granules, Search search) const noexcept {
  Range* best = nullptr;
  int looked = 0;
  for (Range* range = heads_[list]; range; range = static_cast<Range*>(range->next)) {
    if (range->granules >= granules && (!best || range->granules < best->granules)) {
      best = range;
      if (search == Search::quick || range->granules == granules) break;
    }
    if (++looked == (search == Search::quick ? looked_at : looked_at_thoroughly) && best) break;
    if (search == Search::quick && looked == looked_at) break;
  }
  return best;
}

std::uint64_t RangeIndex::largest() const noexcept {
  if (levels_ == 0) return 0;
  const auto level = static_cast<unsigned>(std::bit_width(levels_)) - 1;
  const auto part = static_cast<unsigned>(std::bit_width(parts_[level])) - 1;
  std::uint64_t most = 0;
  for (const Range* range = heads_[level * parts + part]; range; range = static_cast<const Range*>(range->next)) {
    most = std::max<std::uint64_t>(most, range->granules);
  }
  return most;
}

}  // namespace weir::pool
