// SPDX-License-Identifier: Apache-2.0
#pragma once
// How many buffers of a cache were closed by other threads or off the common path, and what the pool wants to hear of
// closes. Both are in one word: a buffer that is not counted yet keeps its cache, its stream and its pool alive, and a
// buffer that is counted does not.

#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::pool {

class CloseCount {
 public:
  /// What else a close may mean.
  enum Flag : std::uint64_t {
    unlisted = 1,   ///< the pool does not know that the cache has anything to give to other streams
    orphaned = 2,   ///< the stream was forgotten, and its shard holds a use of it for the live buffers
    abandoned = 4,  ///< the pool has no handle, and may end when the shard's last buffer is closed
    releases = 8,   ///< the pool has a release threshold
  };

  /// Count a close. Return false when there are flags: then it was not counted, and the pool has to do that under its
  /// mutex. After true the cache may be gone.
  [[nodiscard]] bool add() noexcept {
    auto seen = word_.load(std::memory_order_relaxed);
    while ((seen & all_flags) == 0) {
      if (word_.compare_exchange_weak(seen, seen + one, std::memory_order_release, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  /// The same under the pool's mutex, whatever the flags are.
  void add_flagged() noexcept { word_.fetch_add(one, std::memory_order_release); }

  [[nodiscard]] std::uint64_t flags() const noexcept { return word_.load(std::memory_order_relaxed) & all_flags; }
  void set(std::uint64_t flags) noexcept { word_.fetch_or(flags, std::memory_order_acq_rel); }
  void clear(std::uint64_t flags) noexcept { word_.fetch_and(~flags, std::memory_order_acq_rel); }
  [[nodiscard]] std::uint64_t count() const noexcept { return word_.load(std::memory_order_acquire) / one; }

 private:
  static constexpr std::uint64_t all_flags = 15, one = 16;

  sync::Atomic<std::uint64_t> word_{unlisted};
};

}  // namespace weir::pool
