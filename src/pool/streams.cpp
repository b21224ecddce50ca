// SPDX-License-Identifier: Apache-2.0
// What a pool does when nobody names a stream any more (forgotten), when nobody uses it any more (closed), and when it
// has passed its last value (over).
#include "pool/pool_resource.hpp"

namespace weir::pool {

void PoolResource::set_flags(Shard& shard, std::uint64_t flags) noexcept {
  shard.flags |= flags;
  shard.for_each_cache([&](Cache& cache) { cache.closes.set(flags); });
}

void PoolResource::clear_flags(Shard& shard, std::uint64_t flags) noexcept {
  shard.flags &= ~flags;
  shard.for_each_cache([&](Cache& cache) { cache.closes.clear(flags); });
}

const spi::AttachmentEvents PoolResource::stream_events{
    [](void* object) noexcept {
      auto& shard = *static_cast<Shard*>(object);
      if (!shard.unlinked.load(std::memory_order_acquire)) shard.pool.stream_forgotten(shard);
    },
    [](void* object, std::uint64_t last) noexcept {
      auto& shard = *static_cast<Shard*>(object);
      if (!shard.unlinked.load(std::memory_order_acquire)) shard.pool.stream_closed(shard, last);
    },
    [](void* object) noexcept {
      auto& shard = *static_cast<Shard*>(object);
      if (shard.unlinked.load(std::memory_order_acquire)) return spi::AttachmentEvents::Answer::done;
      return shard.pool.stream_over(shard);
    }};

// Live buffers need the stream's position when they are closed, so the shard holds a use of the stream for them. It
// gives that use up with the last of them.
void PoolResource::stream_forgotten(Shard& shard) noexcept {
  const Lock lock(mutex_);
  if (shard.flags & CloseCount::orphaned) return;  // the shard has held its use since the stream was forgotten before
  set_flags(shard, CloseCount::orphaned);
  visit_caches_of(shard);
  shard.for_each_cache([](Cache& cache) { cache.lock.end_visit(); });
  if (shard.live() != 0) return shard.stream.retain_memory();
  clear_flags(shard, CloseCount::orphaned);
}

void PoolResource::stream_closed(Shard& shard, std::uint64_t last) noexcept {
  const Lock lock(mutex_);
  shard.closed = true;
  shard.last = last;
}

spi::AttachmentEvents::Answer PoolResource::stream_over(Shard& shard) noexcept {
  using Answer = spi::AttachmentEvents::Answer;
  constexpr std::size_t at_once = 256;  // ranges
  const Lock lock(mutex_);
  if (shard.unlinked.load(std::memory_order_relaxed)) return Answer::done;  // taken out while this waited for the lock
  shard.over = true;
  empty_over(shard, at_once);
  if (shard.unemptied != 0 || shard.has_pending()) return Answer::more;
  if (!removable(shard)) return Answer::done;  // the shard ends once nothing keeps it any more
  take_out(shard);
  delete &shard;
  return Answer::gone;
}

// The stream is over: free its ranges for every stream.
void PoolResource::empty_over(Shard& shard, std::size_t ranges) noexcept {
  const Asked itself{&shard, false, true, {0, shard.last}};
  empty_caches({&itself, 1}, {}, {1, ranges});
  clear_pending(shard, shard.last, ranges);
  settle_place(shard);
}

void PoolResource::link(Shard& shard) noexcept {
  shard.previous = nullptr;
  shard.next = shards_;
  if (shards_) shards_->previous = &shard;
  shards_ = &shard;
  ++shard_count_;
  shard.flags |= pool_flags_;
}

void PoolResource::unlink(Shard& shard) noexcept {
  (shard.previous ? shard.previous->next : shards_) = shard.next;
  if (shard.next) shard.next->previous = shard.previous;
  --shard_count_;
}

// Take out a shard that ends. What it has counted stays in the pool.
void PoolResource::take_out(Shard& shard) noexcept {
  unlink_asked(shard);
  unlink(shard);
  shard.unlinked.store(true, std::memory_order_release);
  shard.for_each_cache([this](Cache& cache) {
    note(cache);
    noted_in_use_ -= cache.noted_in_use;
    allocations_ += cache.allocations();
    reuses_ += cache.hits();
  });
}

// Return whether the stream is over and nothing of the shard is left anywhere.
bool PoolResource::removable(const Shard& shard) noexcept {
  return shard.over && shard.pins == 0 && shard.away == 0 && shard.awaited == 0 && shard.unemptied == 0 &&
         !shard.has_pending();
}

// End a shard that was taken out. Needs neither a lock nor the pool.
void PoolResource::dispose(Shard* shard) noexcept {
  if (!shard) return;
  {
    spi::AttachmentLock streams_stay;
    streams_stay.detach(shard->stream, &shard->pool);
  }
  delete shard;
}

}  // namespace weir::pool
