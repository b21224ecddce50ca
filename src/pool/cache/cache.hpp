// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a pool keeps for one thread on one stream: ranges that this stream may use again without waiting for anything.
// A warm allocation touches nothing else. Other threads rarely look inside; they leave at the door what they close.

#include <array>
#include <cstdint>
#include <utility>

#include "base/biased_lock.hpp"
#include "pool/arena/range.hpp"
#include "pool/cache/close_count.hpp"
#include "pool/cache/return_stack.hpp"
#include "pool/cache/waiting_group.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/spi/sync.hpp"

namespace weir::pool {

class Shard;

class alignas(64) Cache {
 public:
  Cache(Shard& of, spi::StreamState& timeline, sync::ThreadId thread, std::size_t alignment) noexcept
      : less_than_unit(alignment - 1),
        whole_units(~(alignment / granule - 1)),
        owner(thread),
        stream(timeline),
        shard(of),
        lock(thread) {}

  /// Return the number of granules that a request for `bytes` needs.
  [[nodiscard]] std::uint64_t granules(std::size_t bytes) const noexcept {
    return (bytes + less_than_unit) / granule & whole_units;
  }

  // The following need `lock`.

  /// Take a range for a request of `wanted` granules, at most `rounded_up_to`. Return null when there is none.
  Range* take(std::uint64_t wanted) noexcept { return pop(class_above(wanted)); }
  /// The same for more granules than `rounded_up_to`.
  Range* take_large(std::uint64_t wanted) noexcept;
  void keep(Range& range) noexcept {
    const auto which = class_below(range.granules);
    range.next = cached_[which];
    cached_[which] = &range;
    present_[which / 64] |= std::uint64_t{1} << (which % 64);
  }
  /// Keep what other threads have left at the door. Return whether there was anything.
  bool keep_returned() noexcept;
  /// Take out up to `most` ranges of the classes [from, to). Return them as a list through `next`, and lower `most` by
  /// their number.
  Range* take_some(std::size_t from, std::size_t to, std::size_t& most) noexcept;
  [[nodiscard]] bool empty() const noexcept;
  template <class F>
  void for_each(F function) const {
    for (const Range* range : cached_) {
      for (; range; range = static_cast<const Range*>(range->next)) function(*range);
    }
  }
  /// Begin a buffer of `bytes` in `range`, and count it.
  [[gnu::always_inline]] void begin(Range& range, std::size_t bytes) noexcept {
    range.size = bytes;
    range.owners.store(1, std::memory_order_relaxed);
    allocations_ += 1;
    peak_.raise(in_use_ += bytes);
  }
  /// Count a buffer that the owner thread has closed.
  void count_out(std::size_t bytes) noexcept {
    frees_ += 1;
    in_use_ -= bytes;
  }
  void count_miss() noexcept { misses_ += 1; }

  // Any thread may call the following.

  /// Leave at the door a range that the stream may use again.
  void give_back(Range& range) noexcept { door_.push(range); }
  /// The same for a list of ranges through `next`.
  void give_back(Range& first, Range& last) noexcept { door_.push(first, last); }
  [[nodiscard]] bool has_returned() const noexcept { return !door_.empty(); }
  /// Count a buffer that another thread has closed, or that was not closed on the common path. Return false when the
  /// pool has to count it, as CloseCount::add does.
  [[nodiscard]] bool close(std::size_t bytes) noexcept {
    others_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    return closes.add();
  }

  // The following are exact while no thread allocates or closes.

  [[nodiscard]] std::size_t live() const noexcept {
    return difference(allocations_, frees_ + closes.count());
  }                                                    ///< buffers
  [[nodiscard]] std::size_t in_use() const noexcept {  ///< bytes asked for
    return difference(in_use_, others_bytes_.load(std::memory_order_relaxed));
  }
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }
  [[nodiscard]] std::uint64_t allocations() const noexcept { return allocations_; }
  [[nodiscard]] std::uint64_t hits() const noexcept { return difference(allocations_, misses_); }

  const std::size_t less_than_unit;  ///< the pool's alignment minus 1
  const std::uint64_t whole_units;   ///< mask that rounds granules down to a multiple of that alignment
  const sync::ThreadId owner;        ///< 0: shared by all threads that have no cache of their own
  spi::StreamState& stream;
  Shard& shard;
  detail::BiasedLock lock;
  CloseCount closes;
  WaitingGroup<Range> waiting;

  // The pool's mutex guards these.
  Cache* next = nullptr;  ///< in the list of the shard
  Cache* next_visited = nullptr;
  std::size_t noted_in_use = 0;  ///< this cache's part of the pool's sum

 private:
  // Written under `lock`, read by any thread.
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
    sync::Atomic<T> value_{0};
  };

  Range* pop(std::size_t which) noexcept {
    Range* const range = cached_[which];
    if (!range) return nullptr;
    cached_[which] = static_cast<Range*>(range->next);
    return range;
  }
  // Subtract counters that other threads may raise meanwhile: never less than 0.
  static std::uint64_t difference(std::uint64_t all, std::uint64_t some) noexcept {
    return all > some ? all - some : 0;
  }

  Counter<std::size_t> in_use_;  // others_bytes_ not yet subtracted
  Counter<std::size_t> peak_;
  Counter<std::uint64_t> allocations_;
  Counter<std::uint64_t> frees_;
  Counter<std::uint64_t> misses_;  // allocations that the cache could not serve
  std::array<std::uint64_t, (classes + 63) / 64> present_{};
  std::array<Range*, classes> cached_{};
  // Written by other threads.
  ReturnStack<Range> door_;
  sync::Atomic<std::size_t> others_bytes_{0};  // bytes that they closed since the last keep_returned()
};

}  // namespace weir::pool
