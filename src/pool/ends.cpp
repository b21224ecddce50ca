// SPDX-License-Identifier: Apache-2.0
// How a pool comes to an end, and its streams before it; and forks.
#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "alignment.hpp"
#include "forks.hpp"
#include "pool/core.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"

namespace weir {
namespace {

constinit std::mutex pools_mutex;
constinit pool::Core* first_pool = nullptr;

// Let upstream's block wait for what the range waits for, and for `last` of `stream`. Without memory to say so, it is
// leaked.
void pass_on(pool::Range& range, spi::StreamState* stream, std::uint64_t last) noexcept {
  spi::Block& block = *range.region->block;
  try {
    range.move_uses(block);
    if (stream) block.used(*stream, last);
  } catch (const std::bad_alloc&) {
    block.segment->retain();
    report({make_error_code(std::errc::not_enough_memory), "end of a pool",
            "memory is leaked: std::bad_alloc while its last use was to be waited for"});
  }
}

}  // namespace

void detail::fork_pools(spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::before) pools_mutex.lock();
  for (auto* pool = first_pool; pool; pool = pool->next_pool) pool->fork(moment);
  if (moment != spi::ForkMoment::before) pools_mutex.unlock();
}

namespace pool {

void Core::fork(spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::before) mutex_.lock();
  if (moment == spi::ForkMoment::child) {
    new (&grown_) std::condition_variable;  // the parent's threads wait on the old one for ever
    growing_ = false;                       // and are not here to go on
  }
  for (Shard* shard = shards_; shard; shard = shard->next) {
    moment == spi::ForkMoment::before ? shard->lock.lock() : shard->lock.unlock();
  }
  if (moment != spi::ForkMoment::before) mutex_.unlock();
}

Core::Core(ResourcePtr upstream, const PoolOptions& options)
    : Pool(upstream->device(), "pool(" + upstream->name() + ")",
           {upstream->kind(), upstream->is_host_accessible(), upstream->is_device_accessible(), options.exportable, true}),
      upstream_(std::move(upstream)),
      home_(upstream_->device()),
      segment_bytes_((options.segment_bytes + granule - 1) / granule * granule),
      growth_(options.growth),
      alignment_(std::max(options.alignment, granule)),
      limit_(options.limit),
      reuse_(options.reuse),
      patience_(options.patience),
      release_threshold_(options.release_threshold) {
  const std::scoped_lock lock(pools_mutex);
  next_pool = first_pool;
  if (next_pool) next_pool->previous_pool = this;
  first_pool = this;
}

PoolPtr Core::make(ResourcePtr upstream, const PoolOptions& options) {
  (void)ShardLock::prepare();
  PoolPtr pool(new Core(std::move(upstream), options), [](Core* core) { core->abandon(); });
  auto& core = static_cast<Core&>(*pool);
  if (options.paged && !options.exportable) core.reserve_addresses();
  if (!core.pages_) core.arena_.largest_small = core.segment_bytes_ / granule;
  if (options.initial_bytes == 0) return pool;
  const auto bytes = static_cast<std::size_t>(granules_for(options.initial_bytes)) * granule;
  Shortage shortage;
  Lock lock(core.mutex_);
  if (core.pages_ ? core.add_first_pages(bytes / granule, lock, shortage)
                  : bytes <= most_bytes && core.add_region(nullptr, false, bytes, bytes, lock, shortage)) {
    return pool;
  }
  shortage.requested = options.initial_bytes;
  shortage.resource = core.name();
  if (shortage.device.empty()) shortage.device = core.device().state().describe();
  throw OutOfMemory(std::move(shortage));
}

// Several times what the device has, because idle addresses are not always where they are needed.
void Core::reserve_addresses() {
  constexpr std::size_t times = 4, least = std::size_t{64} << 30;
  const auto bytes = std::clamp(times * device().total_memory(), least, most_bytes / 2);
  spi::Block* const block = reserve_addresses_from(*upstream_, bytes, home_);
  if (!block) return;
  if (block->segment->paged()->page_bytes % alignment_ != 0) return deallocate_to(*upstream_, *block);
  try {
    arena_.add_addresses(*this, *block);
  } catch (...) {
    deallocate_to(*upstream_, *block);
    throw;
  }
  pages_.emplace(*block->segment->paged());
}

Core::~Core() {
  {
    const std::scoped_lock lock(pools_mutex);
    (previous_pool ? previous_pool->next_pool : first_pool) = next_pool;
    if (next_pool) next_pool->previous_pool = previous_pool;
  }
  give_back_all();
}

// The handle there is; or, when the last was dropped and somebody asks a buffer, a new one.
ResourcePtr Core::do_handle() {
  const std::scoped_lock one_at_a_time(pools_mutex);
  if (auto handle = weak_from_this().lock()) return handle;
  {
    const Lock lock(mutex_);
    ++handles_;
    abandoned_ = 0;
    for (Shard* shard = shards_; shard; shard = shard->next) {
      const std::scoped_lock guard(shard->lock);
      shard->state &= static_cast<std::uint8_t>(~Shard::abandoned);
    }
  }
  return {static_cast<Pool*>(this), [](Pool* pool) { static_cast<Core*>(pool)->abandon(); }};
}

// The last handle is gone: the pool goes with the last buffer.
void Core::abandon() noexcept {
  {
    const Lock lock(mutex_);
    if (--handles_ != 0) return;
    for (Shard* shard = shards_; shard; shard = shard->next) {
      const std::scoped_lock guard(shard->lock);
      if (shard->live() == 0) continue;
      shard->state |= Shard::abandoned;
      ++abandoned_;
    }
    if (abandoned_ != 0) return;
  }
  delete this;
}

// A close by another thread than the usual one, or that ends more than a buffer, or whose memory other streams may still
// use. The range counts as live until the end, so that neither the pool nor the stream goes before.
void Core::close_slowly(Shard& shard, Range& range, std::size_t bytes) noexcept {
  bool settle = false, release = false;
  {
    const std::scoped_lock guard(shard.lock);
    if (range.only_at_home()) {
      shard.keep(range);
    } else {
      shard.wait(range);
      settle = shard.waiting_count >= shard.settle_at;
    }
    release = shard.state == Shard::releases && shard.live() == 1;
    if (!settle && !release && (shard.state & ~Shard::releases) == 0) return count_out(shard, bytes);
  }
  ResourcePtr keep;  // goes last, maybe with the pool
  if (release) keep = handle_or_none();
  if (settle) settle_waiting(shard);
  spi::Ref<spi::StreamState> orphan;
  bool last = false;
  {
    const Lock lock(mutex_);
    const std::scoped_lock guard(shard.lock);
    count_out(shard, bytes);
    if (shard.live() != 0) return;
    if (shard.state & Shard::orphaned) orphan = spi::Ref<spi::StreamState>::adopt(&shard.stream);
    last = (shard.state & Shard::abandoned) != 0 && --abandoned_ == 0;
    shard.state &= Shard::releases;
  }
  if (last) delete this;
  if (keep) release_idle(std::move(keep));
}

std::uint64_t Core::unused(void* shard, const Progress& progress) noexcept {
  auto& mine = *static_cast<Shard*>(shard);
  return mine.core->stream_unused(mine, progress);
}

std::uint64_t Core::stream_unused(Shard& shard, const Progress& progress) noexcept {
  const Lock lock(mutex_);
  if (!shard.stream.has_one_owner()) return spi::Attachment::kept;  // somebody looks after it at the moment
  {
    const std::scoped_lock guard(shard.lock);
    if (shard.live() != 0) {
      if ((shard.state & Shard::orphaned) == 0) shard.stream.retain();
      shard.state |= Shard::orphaned;
      return spi::Attachment::kept;
    }
    if (shard.first_waiting) {
      const auto closed_at = shard.last_closed();
      if (progress.outside != 0 && closed_at >= progress.outside) return spi::Attachment::kept;  // after the question
      const auto last = std::max(closed_at, progress.outside);
      if (last > progress.over) return last;
    }
    // Uses on other streams are waited for without this one.
    for (Range* range = shard.take_waiting(); range;) {
      Range& waiting = *std::exchange(range, static_cast<Range*>(range->next));
      waiting.stream = nullptr;
      waiting.shard = nullptr;
      waiting.next = std::exchange(left_, &waiting);
    }
  }
  flush(shard, progress);
  if (shard.has_cached()) return spi::Attachment::kept;  // closed after the question: ask again
  std::uint64_t last = 0;
  shard.free.for_each([&](const Range& range) { last = std::max(last, range.closed_at()); });
  if (last != 0) return last;
  allocations_ += shard.allocations;
  reuses_ += shard.hits();
  peak_in_use_ = std::max<std::size_t>(peak_in_use_, shard.peak);
  unlink(shard);
  delete &shard;
  return spi::Attachment::detached;
}

void Core::link(Shard& shard) noexcept {
  shard.next = shards_;
  if (shards_) shards_->previous = &shard;
  shards_ = &shard;
  ++shard_count_;
  mark_releasing(shard);
}

void Core::unlink(Shard& shard) noexcept {
  (shard.previous ? shard.previous->next : shards_) = shard.next;
  if (shard.next) shard.next->previous = shard.previous;
  --shard_count_;
}

// Every buffer is closed and every handle gone. Upstream's blocks learn who still uses them, and wait for that.
void Core::give_back_all() noexcept {
  {
    spi::AttachmentLock streams_stay;
    for (Shard* shard = shards_; shard; shard = shard->next) {
      shard->stream.retain();
      streams_stay.detach(shard->stream, this);
    }
  }
  const auto each = [](Range* range, const auto& function) {
    for (; range; range = static_cast<Range*>(range->next)) function(*range);
  };
  each(left_, [](Range& range) { pass_on(range, nullptr, 0); });
  while (Shard* const shard = shards_) {
    shards_ = shard->next;
    const auto stream = spi::Ref<spi::StreamState>::adopt(&shard->stream);
    const auto progress = stream->progress();
    const auto closed = [&](Range& range) {
      const auto last = std::max(range.closed_at(), progress.outside);
      pass_on(range, last > progress.over ? stream.get() : nullptr, last);
    };
    each(shard->take_waiting(), closed);
    each(shard->take_all(), closed);
    shard->free.for_each(closed);
    delete shard;
  }
  if (pages_) arena_.regions.pop_back();  // the same block
  for (Region& region : arena_.regions) deallocate_to(*upstream_, *region.block);
}

}  // namespace pool

PoolPtr make_pool(ResourcePtr upstream, const PoolOptions& options) {
  if (!upstream) throw Error(Errc::invalid_argument, "make_pool: there is no upstream");
  if (options.segment_bytes > pool::most_bytes) {
    throw Error(Errc::invalid_argument, "make_pool: segments of " + std::to_string(options.segment_bytes) +
                                            " bytes; the most is " + std::to_string(pool::most_bytes));
  }
  if (!(options.growth >= 0 && options.growth <= 1)) {
    throw Error(Errc::invalid_argument,
                "make_pool: growth by " + std::to_string(options.growth) + " of what there is; it is from 0 to 1");
  }
  constexpr std::size_t largest_alignment = std::size_t{2} << 20;
  if (!detail::can_align(options.alignment, largest_alignment)) {
    detail::refuse_alignment("make_pool", options.alignment, largest_alignment);
  }
  if (options.exportable && !upstream->is_exportable()) {
    throw Error(Errc::unsupported, "make_pool: an exportable pool over " + upstream->name() +
                                       ", whose memory is not; make that with exportable = true");
  }
  return pool::Core::make(std::move(upstream), options);
}

PoolPtr make_pool(const Device& device, const PoolOptions& options) {
  const auto kinds = device.kinds();
  const auto first = [&](auto can) {
    const KindInfo* const usual = device.find(device.default_kind());
    if (can(*usual)) return usual->kind;
    const auto found = std::ranges::find_if(kinds, can);
    return found != kinds.end() ? found->kind : usual->kind;
  };
  if (options.exportable) {
    const auto kind = first([](const KindInfo& info) { return info.exportable; });
    return make_pool(make_resource(device, kind, {.exportable = true}), options);
  }
  const auto pages = [&](const KindInfo& info) { return options.paged && info.paged; };
  return make_pool(make_resource(device, first(pages)), options);
}

}  // namespace weir
