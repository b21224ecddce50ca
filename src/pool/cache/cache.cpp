// SPDX-License-Identifier: Apache-2.0
#include "pool/cache/cache.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace weir::pool {

// Large ranges keep their size, so a range that would waste more than 1/64 is left for a better match. The best ranges
// are in the request's own class or at the beginning of the next.
Range* Cache::take_large(std::uint64_t wanted) noexcept {
  constexpr int looked_at = 4;
  const auto first = class_below(wanted);
  const auto most = wanted + wanted / 64;
  const auto end = std::min(first + 2, classes);
  for (auto which = first; which < end; ++which) {
    Range* before = nullptr;
    Range* range = cached_[which];
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

bool Cache::keep_returned() noexcept {
  if (door_.empty()) return false;
  in_use_ -= others_bytes_.exchange(0, std::memory_order_relaxed);
  for (Range* range = door_.take_all(); range;) keep(*std::exchange(range, static_cast<Range*>(range->next)));
  return true;
}

bool Cache::empty() const noexcept {
  if (!door_.empty()) return false;
  for (std::size_t word = 0; word < present_.size(); ++word) {
    for (auto left = present_[word]; left != 0; left &= left - 1) {
      if (cached_[word * 64 + static_cast<std::size_t>(std::countr_zero(left))]) return false;
    }
  }
  return true;
}

Range* Cache::take_some(std::size_t from, std::size_t to, std::size_t& most) noexcept {
  Range* taken = nullptr;
  for (std::size_t word = from / 64; word * 64 < to; ++word) {
    auto mask = ~std::uint64_t{0};
    if (word == from / 64) mask <<= from % 64;
    if (word == to / 64) mask &= ~(~std::uint64_t{0} << (to % 64));
    for (auto left = present_[word] & mask; left != 0; left &= left - 1) {
      const auto which = word * 64 + static_cast<std::size_t>(std::countr_zero(left));
      while (Range* const range = most != 0 ? pop(which) : nullptr) {
        range->next = taken;
        taken = range;
        --most;
      }
      if (most == 0) return taken;
      present_[word] &= ~(std::uint64_t{1} << (which % 64));
    }
  }
  return taken;
}

}  // namespace weir::pool
