// SPDX-License-Identifier: Apache-2.0
// How a pool comes to an end, and its streams before it; and forks.
#include <algorithm>
#include <new>
#include <utility>

#include "base/forks.hpp"
#include "pool/pool_resource.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"

namespace weir {
namespace {

constinit sync::Mutex pools_mutex;
constinit pool::PoolResource* first_pool = nullptr;

const detail::ForkStep step(2, [](spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::before) pools_mutex.lock();
  for (auto* pool = first_pool; pool; pool = pool->next_pool) pool->fork(moment);
  if (moment != spi::ForkMoment::before) pools_mutex.unlock();
});

// Let upstream's block wait for `last` of `stream`. Without memory to say so, it is leaked.
void pass_on(const pool::Range& range, spi::StreamState& stream, std::uint64_t last) noexcept {
  spi::Block& block = *range.region->block;
  try {
    block.waits_for(stream, last);
  } catch (const std::bad_alloc&) {
    block.segment->retain();
    report({make_error_code(std::errc::not_enough_memory), "end of a pool",
            "memory is leaked: std::bad_alloc while its last use was to be waited for"});
  }
}

}  // namespace

namespace pool {

PoolResource::PoolResource(ResourcePtr upstream, const PoolOptions& options)
    : Pool(upstream->device(), "pool(" + upstream->name() + ")",
           {.kind = upstream->kind(),
            .host_accessible = upstream->is_host_accessible(),
            .device_accessible = upstream->is_device_accessible(),
            .exportable = options.exportable,
            .keeps_uses = true}),
      upstream_(std::move(upstream)),
      home_(upstream_->device()),
      segment_bytes_((options.segment_bytes + granule - 1) / granule * granule),
      growth_(options.growth),
      alignment_(std::max(options.alignment, granule)),
      limit_(options.limit),
      reuse_(options.reuse),
      patience_(options.patience),
      release_threshold_(options.release_threshold),
      release_queue_(device().state()),
      pool_flags_(release_threshold_ != ~std::size_t{0} ? std::uint64_t{CloseCount::releases} : 0) {
  const std::scoped_lock lock(pools_mutex);
  next_pool = first_pool;
  if (next_pool) next_pool->previous_pool = this;
  first_pool = this;
}

PoolResource::~PoolResource() {
  {
    const std::scoped_lock lock(pools_mutex);
    (previous_pool ? previous_pool->next_pool : first_pool) = next_pool;
    if (next_pool) next_pool->previous_pool = previous_pool;
  }
  give_back_all();
}

void PoolResource::fork(spi::ForkMoment moment) noexcept {
  const bool before = moment == spi::ForkMoment::before;
  if (before) mutex_.lock();
  if (moment == spi::ForkMoment::child) {
    new (&grown_) sync::Condition;  // the parent's threads wait on the old one for ever
    growing_ = false;                       // and are not here to go on
  }
  if (before) {
    visit_caches();
  } else {
    for_each_cache([](Cache& cache) { cache.lock.end_visit(); });
    mutex_.unlock();
  }
}

namespace {

// Be alone in all of them.
template <class ForEach>
void visit(const ForEach& for_each_cache) noexcept {
  bool somebody_inside = false;
  for_each_cache([&](Cache& cache) { somebody_inside = cache.lock.begin_visit() || somebody_inside; });
  if (somebody_inside) sync::heavy_barrier();
  for_each_cache([](Cache& cache) { cache.lock.wait_outside(); });
}

}  // namespace

void PoolResource::visit_caches() noexcept {
  visit([this](auto function) { for_each_cache(function); });
}

void PoolResource::visit_caches_of(Shard& shard) noexcept {
  visit([&shard](auto function) { shard.for_each_cache(function); });
}

// The handle there is; or, when the last was dropped and somebody asks a buffer, a new one.
ResourcePtr PoolResource::do_handle() {
  const std::scoped_lock one_at_a_time(pools_mutex);
  if (auto handle = weak_from_this().lock()) return handle;
  {
    const Lock lock(mutex_);
    ++handles_;
    alone_ = false;
    abandoned_ = 0;
    for (Shard* shard = shards_; shard; shard = shard->next) clear_flags(*shard, CloseCount::abandoned);
  }
  return {static_cast<Pool*>(this), [](Pool* pool) { static_cast<PoolResource*>(pool)->abandon(); }};
}

// The last handle is gone: the pool goes with the last buffer. Whoever closes one looks at the flags in the step in which it is
// counted, so that of the last close and this one sees the other.
void PoolResource::abandon() noexcept {
  {
    const Lock lock(mutex_);
    if (--handles_ != 0) return;
    for (Shard* shard = shards_; shard; shard = shard->next) set_flags(*shard, CloseCount::abandoned);
    visit_caches();  // nobody is on the way out of a close that did not look
    for_each_cache([](Cache& cache) { cache.lock.end_visit(); });
    for (Shard* shard = shards_; shard; shard = shard->next) {
      if (shard->live() != 0) {
        ++abandoned_;
      } else {
        clear_flags(*shard, CloseCount::abandoned);
      }
    }
    alone_ = true;
    for (Shard* shard = shards_; shard; shard = shard->next) {
      if (shard->awaited != 0) shard->stream.watch();
    }
    if (!at_end()) return;
  }
  delete this;
}

void PoolResource::set_flags(Shard& shard, std::uint64_t flags) noexcept {
  shard.flags |= flags;
  shard.for_each_cache([&](Cache& cache) { cache.closes.set(flags); });
}

void PoolResource::clear_flags(Shard& shard, std::uint64_t flags) noexcept {
  const auto kept = shard.flags & CloseCount::releases;  // of the pool
  shard.flags = (shard.flags & ~flags) | kept;
  shard.for_each_cache([&](Cache& cache) { cache.closes.clear(flags & ~kept); });
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

// Live buffers need the stream's position when they are closed. The use that they have is given up with the last of them.
void PoolResource::stream_forgotten(Shard& shard) noexcept {
  const Lock lock(mutex_);
  if (shard.flags & CloseCount::orphaned) return;  // since it was forgotten before
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
  shard.over = true;
  empty_over(shard, at_once);
  if (shard.unemptied != 0 || shard.has_pending()) return Answer::more;
  if (!removable(shard)) return Answer::done;  // it goes with what keeps it
  take_out(shard);
  delete &shard;
  return Answer::gone;
}

// All that the stream had is everybody's.
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

// It ends; what it has counted stays.
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

// Its stream is over, and nothing of it is anywhere.
bool PoolResource::removable(const Shard& shard) noexcept {
  return shard.over && shard.pins == 0 && shard.away == 0 && shard.awaited == 0 && shard.unemptied == 0 &&
         !shard.has_pending();
}

// End a shard that was taken out. Needs no lock, and not the pool.
void PoolResource::dispose(Shard* shard) noexcept {
  if (!shard) return;
  {
    spi::AttachmentLock streams_stay;
    streams_stay.detach(shard->stream, &shard->pool);
  }
  delete shard;
}

// Every buffer is closed and every handle gone. Upstream's blocks learn who still uses them, and wait for that.
void PoolResource::give_back_all() noexcept {
  {
    spi::AttachmentLock streams_stay;
    for (Shard* shard = shards_; shard; shard = shard->next) streams_stay.detach(shard->stream, this);
  }
  while (Shard* const shard = shards_) {
    shards_ = shard->next;
    const auto progress = shard->stream.progress();
    const auto closed = [&](const Range& range) {
      const auto last = std::max(range.closed_at(), progress.outside);
      if (last > progress.over) pass_on(range, shard->stream, last);
    };
    shard->for_each_cache([&](Cache& cache) {
      cache.keep_returned();
      cache.for_each(closed);
    });
    if (shard->pending) shard->pending->for_each(closed);
    delete shard;
  }
  if (pages_) arena_.regions.pop_back();  // the same block
  for (Region& region : arena_.regions) deallocate_to(*upstream_, *region.block);
}

}  // namespace pool
}  // namespace weir
