// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many use a timeline, and the one step in which its use ends. Whoever finds a timeline by its native handle holds no
// count yet: it either gains one before that step, or sees that the use has ended.

#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::spi {

/// Begins at one. Invariant: the count never grows again once it was zero, and it becomes zero only by `end`, which
/// fails when anybody gained a count since the caller looked.
class UseCount {
 public:
  using Seen = std::uint64_t;  ///< the count, and how often somebody without one gained one

  /// By somebody who holds a count.
  void add() noexcept { word_.fetch_add(1, std::memory_order_relaxed); }
  /// By somebody who holds none. False when the use has ended.
  [[nodiscard]] bool try_add() noexcept {
    auto seen = word_.load(std::memory_order_relaxed);
    while (count(seen) != 0) {
      if (word_.compare_exchange_weak(seen, seen + gained + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  /// Give one up. False when it is the last, which the caller then still holds.
  [[nodiscard]] bool drop() noexcept {
    auto seen = word_.load(std::memory_order_relaxed);
    while (count(seen) > 1) {
      if (word_.compare_exchange_weak(seen, seen - 1, std::memory_order_release, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  /// For the holder of the last count: look, find out whether anything else keeps the timeline in use, then end.
  [[nodiscard]] Seen look() const noexcept { return word_.load(std::memory_order_acquire); }
  [[nodiscard]] static bool is_last(Seen seen) noexcept { return count(seen) == 1; }
  /// Give the last count up. False when somebody gained one since `seen`; the caller then still holds its own.
  [[nodiscard]] bool end(Seen seen) noexcept {
    return word_.compare_exchange_strong(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
  [[nodiscard]] bool ended() const noexcept { return count(word_.load(std::memory_order_acquire)) == 0; }

 private:
  static constexpr std::uint64_t gained = std::uint64_t{1} << 32;
  static std::uint32_t count(Seen seen) noexcept { return static_cast<std::uint32_t>(seen); }

  sync::Atomic<std::uint64_t> word_{1};
};

}  // namespace weir::spi
