// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counts the uses of a timeline, by sort. The use of a timeline ends in one step. A caller that finds a timeline by its
// native handle holds no count yet: it either gains one before that step, or sees that the use has ended.

#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::spi {

/// Two counts in one word. The first is of objects that *name* the timeline: Streams and Events. The second is of
/// memory that was allocated or used on it. A new timeline has one that names. Invariant: once the word is zero, it
/// never grows again.
class UseCount {
 public:
  /// Add one that names, for a caller that already holds a count of either sort.
  void add() noexcept { word_.fetch_add(1, std::memory_order_relaxed); }
  /// Add one of memory, for a caller that already holds a count of either sort.
  void add_memory() noexcept { word_.fetch_add(memory, std::memory_order_relaxed); }
  /// Add one that names, for a caller that may hold no count. Returns false when the use has ended.
  [[nodiscard]] bool try_add() noexcept {
    auto seen = word_.load(std::memory_order_relaxed);
    while (seen != 0) {
      if (word_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
    return false;
  }
  /// Give up one that names. Returns false when that was the last one. In the same step it has then become one of
  /// memory, which the caller holds, so that nothing ends before the caller has done what only it may do.
  [[nodiscard]] bool drop() noexcept {
    auto seen = word_.load(std::memory_order_relaxed);
    for (;;) {
      const bool last = names(seen) == 1;
      const auto next = last ? seen - 1 + memory : seen - 1;
      if (word_.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_relaxed)) return !last;
    }
  }
  /// Give up one of memory. Returns true when that was the last one of either sort: the use has ended.
  [[nodiscard]] bool drop_memory() noexcept { return word_.fetch_sub(memory, std::memory_order_acq_rel) == memory; }

  /// Return whether any object names the timeline. The answer may be old, unless the caller is such an object.
  [[nodiscard]] bool named() const noexcept { return names(word_.load(std::memory_order_acquire)) != 0; }
  /// Return whether memory holds a count besides the caller, which holds one of that sort.
  [[nodiscard]] bool has_more_memory() const noexcept { return word_.load(std::memory_order_acquire) >= 2 * memory; }
  /// Return whether both counts are zero, which then stays true.
  [[nodiscard]] bool ended() const noexcept { return word_.load(std::memory_order_acquire) == 0; }

 private:
  static constexpr std::uint64_t memory = std::uint64_t{1} << 32;
  static std::uint32_t names(std::uint64_t seen) noexcept { return static_cast<std::uint32_t>(seen); }

  sync::Atomic<std::uint64_t> word_{1};
};

}  // namespace weir::spi
