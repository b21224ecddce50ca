// SPDX-License-Identifier: Apache-2.0
// Closes that are not the usual one: by another thread, of memory that other streams may still use, or with something that
// the pool has to know.
#include <algorithm>
#include <new>
#include <utility>

#include "pool/core.hpp"

namespace weir::pool {

// The buffer counts as live until the end, so that neither its cache nor the pool goes before.
void Core::close_slowly(Cache& cache, Range& range, std::size_t bytes) noexcept {
  if (spi::Uses* const uses = range.take_uses(); uses && !uses->empty()) {
    if (!uses->known_reached()) return wait_elsewhere(cache, range, bytes, *uses);
    uses->clear();
  }
  cache.leave(range);
  count(cache, bytes);
}

void Core::count(Cache& cache, std::size_t bytes) noexcept {
  if (!cache.close(bytes)) count_flagged(cache);
}

void Core::count_flagged(Cache& cache) noexcept {
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

// The range belongs to the queues of the streams that it waits for, one after another, and comes back from the last.
void Core::wait_elsewhere(Cache& cache, Range& range, std::size_t bytes, spi::Uses& uses) noexcept {
  for (auto& entry : uses.entries()) {
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
  uses.keep();
  count(cache, bytes);
  wait_on(range);
}

void Core::wait_on(Range& range) noexcept {
  spi::Uses& uses = *range.take_uses();
  while (!uses.empty()) {
    auto& next = uses.entries().back();
    if (next.stream->after(next.value, uses, &Core::passed, !next.tag, &alone_)) return;
    drop_awaited(uses);
  }
  came_back(range);
}

void Core::passed(spi::Waiter& waiter) noexcept {
  auto& uses = static_cast<spi::Uses&>(waiter);
  auto& range = static_cast<Range&>(uses.block);
  Core& core = range.cache->shard.core;
  core.drop_awaited(uses);
  core.wait_on(range);
}

// The last point has passed.
void Core::drop_awaited(spi::Uses& uses) noexcept {
  Shard* ended = nullptr;
  if (auto* const awaited = static_cast<Shard*>(uses.entries().back().tag)) {
    const Lock lock(mutex_);
    --awaited->awaited;
    settle_place(*awaited);
    if (removable(*awaited)) take_out(*(ended = awaited));
  }
  uses.drop_last();
  dispose(ended);
}

void Core::came_back(Range& range) noexcept {
  constexpr std::size_t everything = ~std::size_t{0};
  Cache& cache = *range.cache;
  Shard& home = cache.shard;
  Shard *ended = nullptr, *ended_home = nullptr;
  bool ends = false;
  {
    const Lock lock(mutex_);
    range.state = Range::State::live;
    cache.leave(range);
    list(cache);
    --away_;
    if (--home.away == 0 && home.awaits) {
      Shard& awaited = *std::exchange(home.awaits, nullptr);
      --awaited.pins;
      if (removable(awaited)) take_out(*(ended = &awaited));
    }
    if (home.over) empty_over(home, everything);
    if (removable(home)) take_out(*(ended_home = &home));
    ends = at_end();
  }
  dispose(ended);
  dispose(ended_home);
  if (ends) delete this;
}

}  // namespace weir::pool
