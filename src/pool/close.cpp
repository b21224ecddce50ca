// SPDX-License-Identifier: Apache-2.0
// Closes that are not the usual one: by another thread, of memory that other streams may still use, or with something
// that the pool has to know.
#include <algorithm>
#include <new>
#include <utility>

#include "pool/pool_resource.hpp"

namespace weir::pool {

// The buffer counts as live until the end, so that neither its cache nor the pool goes before.
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
  ResourcePtr keep;  // goes last, maybe with the pool
  if (cache.closes.flags() & CloseCount::releases) keep = handle_or_none();
  spi::StreamState* orphan = nullptr;
  bool ends = false, releases = false;
  {
    Lock lock(mutex_);
    if (shard.flags & CloseCount::orphaned) {  // until the buffer is counted
      lock.unlock();
      shard.stream.mark_forgotten();
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

// Join the ranges of the cache that wait for one point, if this one waits for that and no other.
bool PoolResource::wait_together(Cache& cache, Range& range, std::size_t bytes, spi::Uses& uses) noexcept {
  auto& entries = uses.entries();
  if (entries.size() != 1) return false;
  const auto entry = entries.back();
  bool joined = false;
  (void)at_home(cache, [&] {
    if (!cache.waiting.waits_for(entry.stream, entry.value)) return;
    entries.pop_back();  // while the range is still this thread's
    joined = cache.waiting.join(range);
    joined ? cache.count_out(bytes) : entries.push_back(entry);
  });
  if (joined) spi::Points::drop(entry);
  return joined;
}

// The range belongs to the queues of the streams that it waits for, one after another, and comes back from the last.
void PoolResource::wait_elsewhere(Cache& cache, Range& range, std::size_t bytes, spi::Uses& uses) noexcept {
  for (auto& entry : uses.entries()) {
    if (entry.how == spi::Points::How::keep) continue;  // it may be closed, and its shard may end
    try {
      entry.tag = &shard_of(*entry.stream);
    } catch (const std::bad_alloc&) {  // the library's thread looks after it then
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
      if (!entry.tag) continue;
      Shard& awaited = *static_cast<Shard*>(entry.tag);
      ++awaited.awaited;
      awaited.last_awaited = std::max(awaited.last_awaited, entry.value);
      link_asked(awaited);
      if (!home.awaits) ++(home.awaits = &awaited)->pins;
    }
  }
  uses.keep();  // the shards keep those that have one
  range.leads = false;
  const bool counted = at_home(cache, [&] {
    cache.count_out(bytes);
    const auto& only = uses.entries().back();
    range.leads = uses.entries().size() == 1 && cache.waiting.begin(range, only.stream, only.value);
  });
  if (!counted) count(cache, bytes);
  wait_on(range);
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
  for (Range* further = pool.drop_points(several); further;) {
    pool.wait_on(*std::exchange(further, static_cast<Range*>(further->next)));
  }
}

// Ranges of one cache that come back together, as a list through `next`.
struct PoolResource::Returned {
  /// With those that waited with it.
  void add(Range& range) noexcept {
    range.next = first;
    first = range.leads ? &range.cache->waiting.take() : &range;
    if (count++ == 0) last = &range;
  }
  Range *first = nullptr, *last = nullptr;
  std::size_t count = 0;  // of those that were counted as away
};

// The last points of these ranges have passed, all on one stream, which the caller keeps. Returns those that wait for
// another one next; the others come back, and without any of the former the pool may be gone.
Range* PoolResource::drop_points(Range* several) noexcept {
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
