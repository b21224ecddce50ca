// SPDX-License-Identifier: Apache-2.0
// What a pool gives back to upstream, and what it waits for before it can: on the host for trim() and for a request that
// would fail, on nobody's time for its release threshold.
#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "leases.hpp"
#include "pool/core.hpp"
#include "reclaim.hpp"

namespace weir::pool {

// After all of them, everything that no buffer has is free for every stream.
std::vector<spi::Point> Core::pending_uses() {
  const auto streams = ask_streams();
  std::vector<spi::Point> pending;
  const Lock lock(mutex_);
  note_peaks();
  flush(streams);
  const auto add_uses = [&](Range* range) {
    for (; range; range = static_cast<Range*>(range->next)) std::ranges::move(range->uses(), std::back_inserter(pending));
  };
  add_uses(left_);
  for (Shard* shard = shards_; shard; shard = shard->next) {
    std::uint64_t last = 0;
    shard->free.for_each([&](const Range& range) { last = std::max(last, range.closed_at()); });
    if (last != 0) pending.push_back({spi::Ref<spi::StreamState>::retain(&shard->stream), last});
    const std::scoped_lock guard(shard->lock);
    add_uses(shard->first_waiting);
  }
  return pending;
}

// The blocks of regions that nobody uses, until at most `most_reserved` bytes are left.
std::vector<spi::Block*> Core::take_unused(std::size_t most_reserved) {
  std::vector<spi::Block*> blocks;
  blocks.reserve(arena_.regions.size());
  for (auto next = arena_.regions.begin(); next != arena_.regions.end() && arena_.bytes > most_reserved;) {
    Region& region = *next++;
    if (!region.unused()) continue;
    if (!region.large) small_ -= region.block->size / granule;
    blocks.push_back(&arena_.remove(region));
  }
  given_back_ += blocks.size();
  return blocks;
}

void Core::give_back(const std::vector<spi::Block*>& blocks) noexcept {
  for (spi::Block* block : blocks) deallocate_to(*upstream_, *block);
}

// What is free for every stream, but so many bytes, or as many as make up so many reserved. Returns what is reserved then.
std::size_t Core::give_back_free(std::size_t least_free, std::size_t least_reserved) {
  std::vector<spi::Block*> blocks;
  std::size_t left = 0;
  {
    const auto streams = ask_streams();
    Lock lock(mutex_);
    flush(streams);
    const auto used = in_use();
    const auto keep = std::max(least_free, least_reserved - std::min(used, least_reserved));
    if (pages_) {
      end_pages(keep, lock);
    } else {
      blocks = take_unused(used + keep);
    }
    left = arena_.bytes;
  }
  give_back(blocks);
  return left;
}

std::size_t Core::trim(std::size_t bytes_to_keep) {
  const auto before = stats().reserved;
  if (is_exportable()) detail::settle_leases();
  for (const spi::Point& point : pending_uses()) (void)point.stream->wait_for(point.value, std::chrono::nanoseconds{-1});
  const auto after = give_back_free(bytes_to_keep, 0);
  upstream_->trim(bytes_to_keep);
  return before > after ? before - after : 0;
}

// The last resort: the host waits for what streams still do, and then has it free for all, as it has what other processes
// left. False when that is nothing.
bool Core::wait_for_uses(Lock& lock) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  lock.unlock();
  const bool leased = is_exportable() && detail::settle_leases();
  {
    const auto pending = pending_uses();
    if (pending.empty()) {
      lock.lock();
      return leased;
    }
    for (const spi::Point& point : pending) {
      const auto waited = Clock::now() - begin;
      const auto left = patience_ > waited ? patience_ - waited : std::chrono::nanoseconds{0};
      if (point.stream->wait_for(point.value, left) == WaitStatus::timeout) break;
    }
  }
  (void)pending_uses();
  lock.lock();
  return true;
}

// No buffer of some stream is left. What goes back, once it may, goes by a worker unless nothing has to be waited for.
void Core::release_idle(ResourcePtr keep) noexcept {
  {
    const Lock lock(mutex_);
    if (arena_.bytes <= release_threshold_) return;
    release_again_ = releasing_;
    if (std::exchange(releasing_, true)) return;
  }
  try {
    detail::run_after(device().state(), pending_uses(), [this, keep] { release_now(keep); });
  } catch (const std::exception&) {  // no memory, or no thread: whoever closes the next one tries again
    const Lock lock(mutex_);
    releasing_ = false;
  }
}

void Core::release_now(const ResourcePtr& keep) noexcept {
  std::size_t threshold = 0;
  {
    const Lock lock(mutex_);
    threshold = release_threshold_;
  }
  try {
    (void)give_back_free(0, threshold);
  } catch (const std::bad_alloc&) {  // the same
  }
  bool again = false;
  {
    const Lock lock(mutex_);
    releasing_ = false;
    again = std::exchange(release_again_, false);
  }
  if (again) release_idle(keep);
}

void Core::set_release_threshold(std::size_t bytes) noexcept {
  {
    const Lock lock(mutex_);
    release_threshold_ = bytes;
    for (Shard* shard = shards_; shard; shard = shard->next) {
      const std::scoped_lock guard(shard->lock);
      mark_releasing(*shard);
    }
  }
  if (auto keep = handle_or_none()) release_idle(std::move(keep));
}

ResourcePtr Core::handle_or_none() noexcept {
  try {
    return do_handle();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

void Core::mark_releasing(Shard& shard) const noexcept {
  const bool releases = release_threshold_ != ~std::size_t{0};
  shard.state = static_cast<std::uint8_t>(releases ? shard.state | Shard::releases : shard.state & ~Shard::releases);
}

}  // namespace weir::pool
