// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many use a timeline, of which sort, and the one step in which its use ends. Whoever finds a timeline by its
// native handle holds no count yet: it either gains one before that step, or sees that the use has ended.

#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::spi {

/// Two counts in one word. Those who *name* the timeline hold the first: a Stream, an Event. Memory that has no owner
/// who could name it holds the second. Begins at one that names. Invariant: the word never grows again once it was
/// zero.
class UseCount {
 public:
  /// By somebody who holds a count of either sort.
  void add() noexcept { word_.fetch_add(1, std::memory_order_relaxed); }
  void add_memory() noexcept { word_.fetch_add(memory, std::memory_order_relaxed); }
  /// By somebody who holds none: one that names. False when the use has ended.
  [[nodiscard]] bool try_add() noexcept {
    auto seen = word_.load(std::memory_order_relaxed);
    while (seen != 0) {
      if (word_.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire, std::memory_order_relaxed))
        return true;
    }
    return false;
  }
  /// Give one up that names. False when it is the last of these: in the same step it has become one of memory, which
  /// the caller holds, and so nothing ends before the caller has done what only it may do.
  [[nodiscard]] bool drop() noexcept {
    auto seen = word_.load(std::memory_order_relaxed);
    for (;;) {
      const bool last = names(seen) == 1;
      const auto next = last ? seen - 1 + memory : seen - 1;
      if (word_.compare_exchange_weak(seen, next, std::memory_order_acq_rel, std::memory_order_relaxed)) return !last;
    }
  }
  /// Give one of memory up. True when it was the last of all: the use has ended.
  [[nodiscard]] bool drop_memory() noexcept { return word_.fetch_sub(memory, std::memory_order_acq_rel) == memory; }

  [[nodiscard]] bool named() const noexcept { return names(word_.load(std::memory_order_acquire)) != 0; }
  [[nodiscard]] bool ended() const noexcept { return word_.load(std::memory_order_acquire) == 0; }

 private:
  static constexpr std::uint64_t memory = std::uint64_t{1} << 32;
  static std::uint32_t names(std::uint64_t seen) noexcept { return static_cast<std::uint32_t>(seen); }

  sync::Atomic<std::uint64_t> word_{1};
};

}  // namespace weir::spi
