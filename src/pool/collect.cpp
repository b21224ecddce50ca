// SPDX-License-Identifier: Apache-2.0
// How the pool collects the memory that streams are done with. It asks only streams on which something was closed since
// the last time and streams that something waits for, a few at a time. The others come first the next time.
#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "pool/pool_resource.hpp"

namespace weir::pool {
namespace {

constexpr std::size_t most_at_once = 16;  // streams

}  // namespace

// Take over the ranges that streams have cached in the classes of `sort`, and the ranges that they are done with. The
// lock is not held while streams are asked, nor while a shard ends. Return how many awaited points have passed.
std::size_t PoolResource::look(Lock& lock, Shard* first, Sort sort, Effort effort) {
  std::array<Asked, most_at_once> asked{};
  std::size_t count = 0;
  const auto add = [&](Shard& shard) {
    ++shard.pins;
    asked[count++] = {&shard, shard.awaited != 0 || shard.closed, shard.unemptied != 0 || shard.has_pending()};
  };
  if (first && first->next_asked) add(*first);
  for (auto left = std::min({asked_count_, effort.streams, most_at_once - count}); left != 0; --left) {
    Shard& next = *std::exchange(asked_, asked_->next_asked);
    if (&next != first) add(next);
  }
  const std::span<Asked> these(asked.data(), count);
  lock.unlock();
  const auto passed = ask(these, effort.ranges);
  lock.lock();
  empty_caches(these, sort, effort);
  Shard* ended = nullptr;  // linked through `next`
  for (const Asked& one : these) {
    Shard& shard = *one.shard;
    if (one.gives) {
      auto ranges = effort.ranges;
      clear_pending(shard, one.progress.over, ranges);
    }
    --shard.pins;
    settle_place(shard);
    if (!removable(shard)) continue;
    take_out(shard);
    shard.next = std::exchange(ended, &shard);
  }
  if (!ended) return passed;
  lock.unlock();
  while (ended) dispose(std::exchange(ended, ended->next));
  lock.lock();
  return passed;
}

// Look at everything, however much it is: before a request fails, and for trim(). A range whose point has passed may
// next wait for another stream, or go back to its own stream, which can then give it to others. That stream may have
// been asked already, so look again.
void PoolResource::look_at_all(Lock& lock) {
  constexpr std::size_t everything = ~std::size_t{0};
  constexpr int most_rounds = 8;  // because other threads may keep closing buffers meanwhile
  std::size_t passed = 1;
  for (int round = 0; round < most_rounds && std::exchange(passed, 0) != 0; ++round) {
    for (auto left = asked_count_ / most_at_once + 1; left != 0; --left) {
      passed += look(lock, nullptr, {}, {most_at_once, everything});
    }
  }
}

std::size_t PoolResource::ask(std::span<Asked> asked, std::size_t ranges) noexcept {
  std::size_t passed = 0;
  for (Asked& one : asked) {
    if (one.awaited) passed += one.shard->stream.settle(ranges);
    if (one.gives) one.progress = one.shard->stream.progress();
  }
  return passed;
}

// Empty the caches of these streams. One barrier serves the caches of all other threads. The pool does not wait for a
// thread that is stopped inside its cache: it skips that cache.
void PoolResource::empty_caches(std::span<const Asked> asked, Sort sort, Effort effort) noexcept {
  constexpr unsigned patience = 100;
  const auto each = [&](auto function) {
    for (const Asked& one : asked) {
      if (!one.gives || one.shard->unemptied == 0) continue;
      one.shard->for_each_cache([&](Cache& cache) {
        if ((cache.closes.flags() & CloseCount::unlisted) == 0) function(one, cache);
      });
    }
  };
  bool somebody_inside = false;
  each([&](const Asked&, Cache& cache) { somebody_inside = cache.lock.begin_visit() || somebody_inside; });
  if (somebody_inside) sync::heavy_barrier();
  Cache* visited = nullptr;  // a list, because emptying a cache changes whether `each` finds it
  each([&](const Asked& one, Cache& cache) {
    for (unsigned round = 0; round < patience && !cache.lock.is_outside(); ++round) sync::pause(0);
    if (cache.lock.is_outside()) empty_cache(cache, one.progress, sort, effort);
    cache.next_visited = std::exchange(visited, &cache);
  });
  while (visited) std::exchange(visited, visited->next_visited)->lock.end_visit();
}

// Ranges that the stream is done with become free for every stream. The others become ranges that only this stream may
// use, if there is memory for their index. A range that was closed at `outside` or later stays in the cache: work from
// outside weir may have used it since.
void PoolResource::empty_cache(Cache& cache, const spi::Progress& progress, Sort sort, Effort& left) noexcept {
  constexpr std::size_t at_once = 64;
  const auto outside = progress.outside, over = progress.over;
  auto& pending = cache.shard.pending;
  cache.keep_returned();
  const auto put = [&](Range& range) {
    const auto usable_at = std::max(range.closed_at(), outside);
    const bool is_over = usable_at <= over;
    --(is_over ? left.over : left.ranges);
    if (!is_over && !pending) pending.reset(new (std::nothrow) PendingRanges);
    if ((outside != 0 && range.closed_at() >= outside) || (!is_over && !pending)) return false;
    range.closed_at(usable_at);
    range.shard = is_over ? nullptr : &cache.shard;
    arena_.make_free(range);
    return true;
  };
  const auto take_some = [&] {
    std::size_t most = std::min({left.ranges, left.over, at_once});
    return cache.take_some(sort.from, sort.to, most);
  };
  Range* stays = nullptr;
  while (Range* taken = take_some()) {
    while (taken) {
      Range& range = *std::exchange(taken, static_cast<Range*>(taken->next));
      if (!put(range)) range.next = std::exchange(stays, &range);
    }
  }
  while (stays) cache.keep(*std::exchange(stays, static_cast<Range*>(stays->next)));
  note(cache);
  if (!cache.empty()) return;
  cache.closes.set(CloseCount::unlisted);
  --cache.shard.unemptied;
  if (cache.has_returned()) list(cache);  // returned by a thread that did not see the flag
}

void PoolResource::clear_pending(Shard& shard, std::uint64_t over, std::size_t& ranges) noexcept {
  for (; ranges != 0 && shard.has_pending() && shard.pending->first().closed_at() <= over; --ranges) {
    arena_.clear(shard.pending->first());
  }
}

void PoolResource::list(Cache& cache) noexcept {
  if ((cache.closes.flags() & CloseCount::unlisted) == 0) return;
  cache.closes.clear(CloseCount::unlisted);
  ++cache.shard.unemptied;
  link_asked(cache.shard);
}

// Put the shard at the end of the ring, unless it is in the ring already.
void PoolResource::link_asked(Shard& shard) noexcept {
  if (shard.next_asked) return;
  ++asked_count_;
  if (!asked_) {
    asked_ = shard.next_asked = shard.previous_asked = &shard;
    return;
  }
  shard.next_asked = asked_;
  shard.previous_asked = asked_->previous_asked;
  shard.previous_asked->next_asked = asked_->previous_asked = &shard;
}

void PoolResource::unlink_asked(Shard& shard) noexcept {
  if (!shard.next_asked) return;
  --asked_count_;
  if (asked_ == &shard) asked_ = shard.next_asked == &shard ? nullptr : shard.next_asked;
  shard.previous_asked->next_asked = shard.next_asked;
  shard.next_asked->previous_asked = shard.previous_asked;
  shard.next_asked = shard.previous_asked = nullptr;
}

// Put the shard into the ring or take it out, when its reasons to be there may have changed.
void PoolResource::settle_place(Shard& shard) noexcept {
  const bool worth_it = shard.unemptied != 0 || shard.awaited != 0 || shard.has_pending();
  worth_it ? link_asked(shard) : unlink_asked(shard);
}

void PoolResource::note(Cache& cache) noexcept {
  const auto now = cache.in_use();
  noted_in_use_ += now - std::exchange(cache.noted_in_use, now);
  peak_in_use_ = std::max({peak_in_use_, noted_in_use_, cache.peak()});
}

// Return whether there is closed memory that a request could get later. Memory of a stream that ended before its last
// point could be marked never comes.
bool PoolResource::has_pending() const noexcept {
  if (away_ != 0) return true;
  const Shard* shard = asked_;
  for (auto left = asked_count_; left != 0; --left, shard = shard->next_asked) {
    const auto first = shard->has_pending() ? shard->pending->first().closed_at() : shard->stream.issued();
    if (shard->awaited != 0 || !shard->stream.never_known(first)) return true;
  }
  return false;
}

}  // namespace weir::pool
