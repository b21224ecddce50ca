// SPDX-License-Identifier: Apache-2.0
// Closes off the common path: by another thread, of memory that other streams may still use, or when the pool has to
// hear of the close.
#include <algorithm>
#include <new>
#include <utility>

#include "pool/pool_resource.hpp"

namespace weir::pool {

// The buffer counts as live until the last step, so that neither its cache nor the pool ends before that.
void PoolResource::close_slowly(Cache& cache, Range& range, std::size_t bytes) noexcept {
  if (spi::Uses* const uses = range.take_uses(); uses && !uses->empty()) {
    if (!uses->known_reached()) {
      if (!wait_together(cache, range, bytes, *uses)) wait_elsewhere(cache, range, bytes, *uses);
      return;
    }
    uses->clear();
    if (keep_at_home(cache, range, bytes)) return;
  }
  cache.give_back(range);
  count(cache, bytes);
}

void PoolResource::count(Cache& cache, std::size_t bytes) noexcept {
  if (!cache.close(bytes)) count_flagged(cache);
}

void PoolResource::count_flagged(Cache& cache) noexcept {
  Shard& shard = cache.shard;
  ResourcePtr keep;  // dropped last; the pool may end with it
  if (cache.closes.flags() & CloseCount::releases) keep = handle_or_none();
  spi::StreamState* orphan = nullptr;
  bool ends = false, releases = false;
  {
    Lock lock(mutex_);
    // The flags may change whenever the lock is free.
    for (bool kept = keep != nullptr, marked = false;;) {
      if ((shard.flags & CloseCount::releases) && !std::exchange(kept, true)) {
        lock.unlock();
        keep = handle_or_none();
      } else if ((shard.flags & CloseCount::orphaned) && !std::exchange(marked, true)) {
        lock.unlock();
        shard.stream.mark_forgotten();  // the shard holds its use of the stream until the buffer is counted
      } else {
        break;
      }
      lock.lock();
    }
    list(cache);
    cache.closes.add_flagged();
    const auto flags = shard.flags;
    if (flags == 0 || shard.live() != 0) return;
    if (flags & CloseCount::orphaned) orphan = &shard.stream;
    if (flags & CloseCount::abandoned) {
      --abandoned_;
      ends = at_end();
    }
    clear_flags(shard, CloseCount::orphaned | CloseCount::abandoned);
    releases = (flags & CloseCount::releases) != 0 && may_release();
  }
  if (ends) delete this;
  if (keep && releases) release_idle(std::move(keep));
  if (orphan) orphan->release_memory();
}

// If this range waits for a single point, and a group of the cache waits for the same point, let the range join it.
// Return whether it did.
bool PoolResource::wait_together(Cache& cache, Range& range, std::size_t bytes, spi::Uses& uses) noexcept {
  auto& entries = uses.entries();
  if (entries.size() != 1) return false;
  const auto entry = entries.back();
  bool joined = false;
  (void)at_home(cache, [&] {
    if (!cache.waiting.waits_for(entry.stream, entry.value)) return;
    entries.pop_back();  // now, while the range still belongs to this thread
    joined = cache.waiting.join(range);
    joined ? cache.count_out(bytes) : entries.push_back(entry);
  });
  if (joined) spi::Points::drop(entry);
  return joined;
}

// Hand the range to the queues of the streams that it waits for, one after another. It comes back from the last.
void PoolResource::wait_elsewhere(Cache& cache, Range& range, std::size_t bytes, spi::Uses& uses) noexcept {
  for (auto& entry : uses.entries()) {
    if (entry.how == spi::Points::How::keep) continue;  // the stream may be closed, so its shard may end
    try {
      entry.tag = &shard_of(*entry.stream);
    } catch (const std::bad_alloc&) {  // then the library's thread looks after this entry
      entry.tag = nullptr;
    }
  }
  {
    const Lock lock(mutex_);
    Shard& home = cache.shard;
    range.state = Range::State::away;
    ++home.away;
    ++away_;
    for (const auto& entry : uses.entries()) {
      if (!entry.tag) {
        ++uncounted_;
        continue;
      }
      Shard& awaited = *static_cast<Shard*>(entry.tag);
      ++awaited.awaited;
      awaited.last_awaited = std::max(awaited.last_awaited, entry.value);
      link_asked(awaited);
      if (!home.awaits) ++(home.awaits = &awaited)->pins;
    }
  }
  uses.keep();  // the shards keep the streams of the entries that have a tag
  if (alone_.load(std::memory_order_relaxed)) {  // as in mark_awaited(), but a close does not wait for others
    for (const auto& entry : uses.entries()) (void)entry.stream->finished(entry.value);
  }
  range.leads = false;
  const bool here = at_home(cache, [&] {
    const auto& only = uses.entries().back();
    range.leads = uses.entries().size() == 1 && cache.waiting.begin(range, only.stream, only.value);
  });
  wait_on(range);
  if (!here || !at_home(cache, [&] { cache.count_out(bytes); })) count(cache, bytes);
}

void PoolResource::wait_on(Range& range) noexcept {
  do {
    spi::Uses& uses = *range.taken_uses();
    const auto next = uses.entries().back();
    if (next.stream->after(next.value, uses, &PoolResource::passed, !next.tag, &alone_)) return;
    const spi::Kept stream(*next.stream);
    range.next = nullptr;
    if (!drop_points(&range)) return;
  } while (true);
}

void PoolResource::passed(spi::Waiter& waiter, spi::InHand& others) noexcept {
  const auto range_of = [](spi::Waiter& one) -> Range& {
    return static_cast<Range&>(static_cast<spi::Uses&>(one).block);
  };
  Range* several = &range_of(waiter);
  PoolResource& pool = several->cache->shard.pool;
  several->next = nullptr;
  while (spi::Waiter* const next = others.next(&PoolResource::passed)) {
    Range& range = range_of(*next);
    if (&range.cache->shard.pool != &pool) break;
    others.take();
    range.next = std::exchange(several, &range);
  }
  Moving moving{*several->taken_uses()->entries().back().stream};
  Range* further = pool.drop_points(several, &moving);
  if (!further) return;
  while (further) pool.wait_on(*std::exchange(further, static_cast<Range*>(further->next)));
  pool.has_moved(moving);
}

void PoolResource::has_moved(const Moving& moving) noexcept {
  bool ends = false;
  {
    const Lock lock(mutex_);
    Moving** link = &moving_;
    while (*link && *link != &moving) link = &(*link)->next;
    if (*link) *link = moving.next;  // else a sink was told of a failure meanwhile and forked, and this is the child
    ends = at_end();
  }
  if (ends) delete this;
}

// Ranges of one cache that come back together, as a list through `next`.
struct PoolResource::Returned {
  /// Add a range, together with the ranges that waited with it.
  void add(Range& range) noexcept {
    range.next = first;
    first = range.leads ? &range.cache->waiting.take() : &range;
    if (count++ == 0) last = &range;
  }
  Range *first = nullptr, *last = nullptr;
  std::size_t count = 0;  // ranges that were counted as away
};

// The last point on the record of each of these ranges has passed. All these points are on one stream, which the caller
// keeps. Return the ranges that wait for another point next, and list `moving` if there are any. The others come back.
// If none is returned, the pool may be gone.
Range* PoolResource::drop_points(Range* several, Moving* moving) noexcept {
  Range* further = nullptr;
  Shard* ended = nullptr;  // linked through `next`
  Returned back;
  bool ends = false;
  {
    const Lock lock(mutex_);
    while (several) {
      Range& range = *std::exchange(several, static_cast<Range*>(several->next));
      spi::Uses& uses = *range.taken_uses();
      auto* const awaited = static_cast<Shard*>(uses.entries().back().tag);
      uses.drop_last();
      if (!awaited) --uncounted_;
      if (awaited && --awaited->awaited == 0) {
        settle_place(*awaited);
        take_out_if_removable(*awaited, ended);
      }
      if (!uses.empty()) {
        range.next = std::exchange(further, &range);
        continue;
      }
      if (back.count != 0 && back.first->cache != range.cache) come_back(back, ended);
      range.state = Range::State::live;
      back.add(range);
    }
    if (back.count != 0) come_back(back, ended);
    if (further && moving) moving->next = std::exchange(moving_, moving);
    ends = at_end();
  }
  while (ended) dispose(std::exchange(ended, ended->next));
  if (ends) delete this;
  return further;
}

void PoolResource::come_back(Returned& ranges, Shard*& ended) noexcept {
  constexpr std::size_t everything = ~std::size_t{0};
  const auto [first, last, count] = std::exchange(ranges, {});
  Cache& cache = *first->cache;
  Shard& home = cache.shard;
  cache.give_back(*first, *last);
  list(cache);
  away_ -= count;
  if ((home.away -= count) == 0 && home.awaits) {
    Shard& awaited = *std::exchange(home.awaits, nullptr);
    --awaited.pins;
    take_out_if_removable(awaited, ended);
  }
  if (home.over) empty_over(home, everything);
  take_out_if_removable(home, ended);
}

void PoolResource::take_out_if_removable(Shard& shard, Shard*& ended) noexcept {
  if (!removable(shard)) return;
  take_out(shard);
  shard.next = std::exchange(ended, &shard);
}

}  // namespace weir::pool
