// SPDX-License-Identifier: Apache-2.0
// How a pool begins and ends: its handles, what goes back to upstream at the end, and forks.
#include <algorithm>
#include <new>
#include <utility>

#include "base/forks.hpp"
#include "base/reports_later.hpp"
#include "memory/handle.hpp"
#include "pool/pool_resource.hpp"
#include "weir/error.hpp"

namespace weir {
namespace {

constinit sync::Mutex pools_mutex;
constinit pool::PoolResource* first_pool = nullptr;

const detail::ForkStep pools_step(2, [](spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::before) pools_mutex.lock();
  for (auto* pool = first_pool; pool; pool = pool->next_pool) pool->fork(moment);
  if (moment != spi::ForkMoment::before) pools_mutex.unlock();
});

// Make upstream's block wait until `stream` has passed `last`. When there is no memory to record that, the block's
// memory is leaked.
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
    new (&grown_) sync::Condition;  // the parent's threads wait on the old one forever
    growing_ = false;                       // the thread that grew the pool does not exist here
    releasing_ = release_again_ = false;    // nor does the one that gave memory back
    release_comes_ = release_waits_ = release_goes_on_ = false;  // nor, perhaps, those that had the releases in hand
    moving_ = nullptr;                      // nor do the threads that moved memory
  }
  if (before) {
    visit_caches();
  } else {
    const bool child = moment == spi::ForkMoment::child;
    for_each_cache([&](Cache& cache) { child ? cache.lock.end_visit_in_child() : cache.lock.end_visit(); });
    mutex_.unlock();
  }
}

namespace {

// Shut all other threads out of these caches, until end_visit() on each.
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

ResourcePtr PoolResource::do_handle() {
  return detail::handle_of(*this, pools_mutex, [this] {
    const Lock lock(mutex_);
    ++handles_;
    alone_ = false;
    abandoned_ = 0;
    for (Shard* shard = shards_; shard; shard = shard->next) clear_flags(*shard, CloseCount::abandoned);
  });
}

// Mark the streams that ranges of the pool wait for. Otherwise the library's thread would, at a moment that nobody can
// foresee, and a point of a whole CUDA context spoils a capture that has begun by then.
void PoolResource::mark_awaited() noexcept {
  Shard* ended = nullptr;  // linked through `next`
  {
    Lock lock(mutex_);
    if (handles_ != 1) return;
    for (Shard* next = shards_; next;) {
      Shard& shard = *next;
      const bool awaited = shard.awaited != 0;
      if (awaited) {
        ++shard.pins;
        lock.unlock();
        shard.stream.mark_submitted();
        lock.lock();
        --shard.pins;
      }
      next = shard.next;
      if (awaited) take_out_if_removable(shard, ended);
    }
  }
  while (ended) dispose(std::exchange(ended, ended->next));
}

// Give up a handle. Once the last handle is gone, the pool ends with its last buffer. A close looks at the flags in the
// same step in which it is counted, so either the last close sees the flag, or this function sees that close.
void PoolResource::abandon() noexcept {
  const detail::ReportsLater later;  // than the lock, under which watch() may find no thread
  mark_awaited();
  {
    const Lock lock(mutex_);
    if (--handles_ != 0) return;
    for (Shard* shard = shards_; shard; shard = shard->next) set_flags(*shard, CloseCount::abandoned);
    visit_caches();  // no thread is still inside a close that has not seen the flags
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

// Every buffer is closed and every handle is gone. Upstream's blocks are told which streams still use them, and wait
// for those.
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
  if (pages_) arena_.regions.pop_back();  // both regions of addresses have the same block
  for (Region& region : arena_.regions) deallocate_to(*upstream_, *region.block);
}

}  // namespace pool
}  // namespace weir
