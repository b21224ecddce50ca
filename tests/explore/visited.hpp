// SPDX-License-Identifier: Apache-2.0
#pragma once
// States that were reached, each with the most preemptions that were left there.

#include <cstdint>

#include "heap.hpp"

namespace weir::explore {

class Visited {
 public:
  static constexpr unsigned most_left = 14;  ///< preemptions

  /// Whether the state was here with at least as many left. Notes it if not.
  bool insert(std::uint64_t state, unsigned left) {
    if (10 * count_ >= 6 * slots_.size()) grow();
    const std::uint64_t value = (state & ~low) | (left + 1);
    std::uint64_t& slot = find(value);
    if ((slot & low) >= left + 1) return true;
    if (slot == 0) ++count_;
    slot = value;
    return false;
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  static constexpr std::uint64_t low = 15;  // the number left, plus one; 0: nothing is here

  std::uint64_t& find(std::uint64_t value) noexcept {
    const auto last = slots_.size() - 1;
    for (auto at = static_cast<std::size_t>(value >> 4) & last;; at = (at + 1) & last) {
      if (slots_[at] == 0 || (slots_[at] & ~low) == (value & ~low)) return slots_[at];
    }
  }
  void grow() {
    List<std::uint64_t> old(slots_.empty() ? 1024 : 4 * slots_.size());
    old.swap(slots_);
    for (const auto value : old) {
      if (value != 0) find(value) = value;
    }
  }

  List<std::uint64_t> slots_;
  std::size_t count_ = 0;
};

}  // namespace weir::explore
