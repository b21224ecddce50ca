// SPDX-License-Identifier: Apache-2.0
#include "pool/shard.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace weir::pool {

// Large ranges keep their size: one that wastes more than 1/64 is left for a better match. The best lie in the request's
// own class or at the beginning of the next.
Range* Shard::take_large(std::uint64_t wanted) noexcept {
  constexpr int looked_at = 4;
  const auto first = class_below(wanted);
  const auto most = wanted + wanted / 64;
  const auto end = std::min(first + 2, classes);
  for (auto which = first; which < end; ++which) {
    Range* before = nullptr;
    Range* range = cached[which];
    for (int looked = 0; range && looked < looked_at; ++looked) {
      if (range->granules >= wanted && range->granules <= most) {
        if (!before) return pop(which);
        before->next = range->next;
        return range;
      }
      before = range;
      range = static_cast<Range*>(range->next);
    }
  }
  return nullptr;
}

std::uint64_t Shard::last_closed() const noexcept {
  std::uint64_t last = 0;
  for (const Range* range = first_waiting; range; range = static_cast<const Range*>(range->next)) {
    last = std::max(last, range->closed_at());
  }
  return last;
}

bool Shard::has_cached() const noexcept {
  return std::any_of(cached.begin(), cached.end(), [](const Range* range) { return range != nullptr; });
}

Range* Shard::take_all(std::size_t from, std::size_t to) noexcept {
  Range* all = nullptr;
  for (std::size_t word = from / 64; word * 64 < to; ++word) {
    auto mask = ~std::uint64_t{0};
    if (word == from / 64) mask <<= from % 64;
    if (word == to / 64) mask &= ~(~std::uint64_t{0} << (to % 64));
    const auto taken = present[word] & mask;
    present[word] &= ~mask;
    for (auto left = taken; left != 0; left &= left - 1) {
      const auto which = word * 64 + static_cast<std::size_t>(std::countr_zero(left));
      while (Range* const range = pop(which)) {
        range->next = all;
        all = range;
      }
    }
  }
  return all;
}

}  // namespace weir::pool
