// SPDX-License-Identifier: Apache-2.0
#include "pool/pool_resource.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

namespace weir::pool {
namespace {

constexpr std::size_t most_caches = 64;  // per stream; the threads beyond that share one more

}  // namespace

// The common path makes no call, so it has no registers to save across one.
spi::Block* PoolResource::do_allocate_cached(const spi::Request& request) noexcept {
  auto* const cache = static_cast<Cache*>(request.stream->state().attached(this, sync::this_thread()));
  if (!cache || request.alignment > cache->less_than_unit + 1) [[unlikely]]
    return nullptr;
  const auto wanted = cache->granules(request.bytes);
  auto* const seat = wanted <= rounded_up_to ? cache->lock.enter() : nullptr;
  if (!seat) [[unlikely]]
    return take_slowly(*cache, request);
  Range* const range = cache->take(wanted);
  if (range) [[likely]]
    cache->begin(*range, request.bytes);
  detail::BiasedLock::exit(seat);
  if (!range && cache->has_returned()) [[unlikely]]
    return take_slowly(*cache, request);
  return range;
}

// Take a range from the cache under its lock. Return null when it has none that fits, or not the alignment.
spi::Block* PoolResource::take_slowly(Cache& cache, const spi::Request& request) noexcept {
  if (request.alignment > cache.less_than_unit + 1) return nullptr;
  const auto wanted = cache.granules(request.bytes);
  const auto take = [&] { return wanted > rounded_up_to ? cache.take_large(wanted) : cache.take(wanted); };
  const std::scoped_lock guard(cache.lock);
  Range* range = take();
  if (!range && cache.keep_returned()) range = take();
  if (range) cache.begin(*range, request.bytes);
  return range;
}

spi::Block* PoolResource::do_allocate(const spi::Request& request, Shortage& shortage) {
  spi::StreamState& stream = request.stream->state();
  auto* cache = static_cast<Cache*>(stream.attached(this, sync::this_thread()));
  const bool known = cache != nullptr;
  if (!known) cache = &cache_of(stream, sync::this_thread());
  Lock lock(mutex_);
  if (!known || fetch_away(cache->shard, lock)) {  // a cache new to this thread may be one that others use, too
    lock.unlock();
    if (auto* const block = take_slowly(*cache, request)) return block;
    lock.lock();
  }
  const auto granules = rounded(cache->granules(request.bytes));
  const auto alignment = request.alignment <= alignment_ ? granule : request.alignment;  // all ranges have alignment_
  const auto needed = granules_with_slack(granules, alignment);
  if (needed > most_bytes / granule) {
    fill(shortage);
    return nullptr;
  }
  const bool large = needed > arena_.largest_small;
  Range* const range = allocate_slow(*cache, {request.bytes, granules, alignment, large}, lock, shortage);
  lock.unlock();
  if (!range) return nullptr;
  const std::scoped_lock guard(cache->lock);
  cache->begin(*range, request.bytes);
  cache->count_miss();
  return range;
}

void PoolResource::do_deallocate(spi::Block& block) noexcept {
  auto& range = static_cast<Range&>(block);
  Cache& cache = *range.cache;
  const auto bytes = range.size;
  range.closed_at(cache.stream.issued());
  if (!range.only_at_home() || !keep_at_home(cache, range, bytes)) [[unlikely]]
    close_slowly(cache, range, bytes);
}

Shard& PoolResource::shard_of(spi::StreamState& stream) {
  if (void* const known = stream.attached(this)) return *static_cast<Shard*>(known);
  auto made = std::make_unique<Shard>(*this, stream);
  {
    const Lock lock(mutex_);
    link(*made);
  }
  void* attached = nullptr;
  try {
    attached = stream.attach(this, 0, made.get(), &stream_events);
  } catch (...) {
    const Lock lock(mutex_);
    unlink(*made);
    throw;
  }
  if (attached == made.get()) return *made.release();
  const Lock lock(mutex_);
  unlink(*made);
  return *static_cast<Shard*>(attached);
}

Cache& PoolResource::cache_of(spi::StreamState& stream, sync::ThreadId thread) {
  Shard& shard = shard_of(stream);
  const auto add = [&](std::unique_ptr<Cache> cache) -> Cache& {
    cache->closes.set(shard.flags);
    cache->next = shard.caches;
    shard.caches = cache.get();
    ++shard.cache_count;
    return *cache.release();
  };
  Cache* added = nullptr;
  {
    const Lock lock(mutex_);
    if (shard.shared) return *shard.shared;
    const bool too_many = shard.cache_count == most_caches;
    added = &add(std::make_unique<Cache>(shard, stream, too_many ? 0 : thread, alignment_));
    if (too_many) return *(shard.shared = added);
  }
  try {
    (void)stream.attach(this, thread, added, nullptr);
  } catch (...) {  // no other thread has allocated from the cache
    const Lock lock(mutex_);
    Cache** link = &shard.caches;
    while (*link != added) link = &(*link)->next;
    *link = added->next;
    --shard.cache_count;
    delete added;
    throw;
  }
  return *added;
}

}  // namespace weir::pool
