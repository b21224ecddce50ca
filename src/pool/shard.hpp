// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a pool keeps for one stream: ranges that this stream may use again without waiting for anything. The first half
// is all that a warm allocation touches, under a lock that only this stream's users take.

#include <array>
#include <cstdint>
#include <utility>

#include "pool/range.hpp"
#include "pool/free_ranges.hpp"
#include "pool/shard_lock.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::pool {

class Core;

class alignas(64) Shard {
 public:
  Shard(Core* pool, spi::StreamState& of, std::size_t alignment) noexcept
      : less_than_unit(alignment - 1), whole_units(~(alignment / granule - 1)), stream(of), core(pool) {}

  /// Granules that a request for so many bytes needs.
  [[nodiscard]] std::uint64_t granules(std::size_t bytes) const noexcept {
    return (bytes + less_than_unit) / granule & whole_units;
  }

  /// A cached range for a request of `wanted` granules, at most `rounded_up_to`, or null. Needs `lock`.
  Range* take(std::uint64_t wanted) noexcept { return pop(class_above(wanted)); }
  /// The same for more.
  Range* take_large(std::uint64_t wanted) noexcept;
  /// Keep a range. Needs `lock`.
  void keep(Range& range) noexcept {
    const auto which = class_below(range.granules);
    range.next = cached[which];
    cached[which] = &range;
    present[which / 64] |= std::uint64_t{1} << (which % 64);
  }
  [[nodiscard]] bool has_cached() const noexcept;
  /// Needs `lock`.
  template <class F>
  void for_each_cached(F function) const {
    for (const Range* range : cached) {
      for (; range; range = static_cast<const Range*>(range->next)) function(*range);
    }
  }
  /// Take the cached ranges of classes [from, to) out, as a list through `next`. Needs `lock`.
  Range* take_all(std::size_t from = 0, std::size_t to = classes) noexcept;
  /// Set aside a range that other streams may still use. Needs `lock`.
  void wait(Range& range) noexcept {
    range.next = nullptr;
    if (last_waiting) {
      last_waiting->next = &range;
    } else {
      first_waiting = &range;
    }
    last_waiting = &range;
    waiting_count += 1;
  }
  /// Latest closed_at() of those. Needs `lock`.
  [[nodiscard]] std::uint64_t last_closed() const noexcept;
  /// Take those out, oldest first. Needs `lock`.
  Range* take_waiting() noexcept {
    last_waiting = nullptr;
    waiting_count -= std::uint32_t{waiting_count};
    return std::exchange(first_waiting, nullptr);
  }

  enum : std::uint8_t {
    orphaned = 1,   ///< holds the last count of its stream, for the live buffers
    abandoned = 2,  ///< the pool goes when the last of these comes back
    releases = 4,   ///< the pool has a release threshold
  };

  /// Written under `lock`, read by anybody.
  template <class T>
  class Counter {
   public:
    operator T() const noexcept { return value_.load(std::memory_order_relaxed); }
    T operator+=(T more) noexcept {
      const T sum = *this + more;
      value_.store(sum, std::memory_order_relaxed);
      return sum;
    }
    void operator-=(T less) noexcept { value_.store(*this - less, std::memory_order_relaxed); }
    void raise(T to) noexcept {
      if (to > *this) value_.store(to, std::memory_order_relaxed);
    }

   private:
    std::atomic<T> value_{0};
  };

  [[nodiscard]] std::size_t live() const noexcept { return difference(allocations, frees); }  ///< buffers
  [[nodiscard]] std::uint64_t hits() const noexcept { return difference(allocations, misses); }  ///< allocations from the cache

  const std::size_t less_than_unit;  ///< the pool's alignment, less one
  const std::uint64_t whole_units;   ///< bits of a number of granules that are multiples of it
  spi::StreamState& stream;
  Core* const core;

  // Under `lock`.
  ShardLock lock;
  std::uint8_t state = 0;
  Counter<std::size_t> in_use;  ///< bytes asked for
  Counter<std::size_t> peak;
  Counter<std::uint64_t> allocations;
  Counter<std::uint64_t> frees;
  Counter<std::uint64_t> misses;  ///< allocations that the cache did not have
  Counter<std::uint32_t> waiting_count;
  std::uint32_t settle_at = 32;  ///< look at their uses again when that many wait
  Range* first_waiting = nullptr;  ///< closed, but used on other streams that are not done; oldest first
  Range* last_waiting = nullptr;
  std::array<std::uint64_t, (classes + 63) / 64> present{};
  std::array<Range*, classes> cached{};

  // Under the pool's mutex.
  FreeRanges free;  ///< usable on this stream at once, elsewhere after closed_at()
  Shard* next = nullptr;  ///< list of the pool
  Shard* previous = nullptr;

 private:
  Range* pop(std::size_t which) noexcept {
    Range* const range = cached[which];
    if (!range) return nullptr;
    cached[which] = static_cast<Range*>(range->next);
    return range;
  }
  // Of counters that other threads raise meanwhile.
  static std::uint64_t difference(std::uint64_t all, std::uint64_t some) noexcept { return all > some ? all - some : 0; }
};

}  // namespace weir::pool
