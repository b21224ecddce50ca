// SPDX-License-Identifier: Apache-2.0
// What a pool gives back to upstream, and what it waits for before that. For trim() the caller waits on the host; for
// the release threshold no caller waits.
#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "base/thrown_by.hpp"
#include "memory/lent.hpp"
#include "pool/pool_resource.hpp"
#include "stream/releases.hpp"
#include "stream/watcher.hpp"

namespace weir::pool {

// Add the points that memory waits for and that no shard counts. Needs the mutex.
void PoolResource::add_uncounted_points(std::vector<spi::Point>& points) const {
  if (uncounted_ == 0) return;
  for (const Region& region : arena_.regions) {
    for (Range* range = region.first; range; range = range->after) {
      if (range->state != Range::State::away) continue;
      for (const auto& entry : range->taken_uses()->entries()) {
        if (!entry.tag) points.push_back({spi::Kept(*entry.stream), entry.value});
      }
    }
  }
}

// Return the points after which everything that is closed now is free for every stream. The exception is memory that is
// away from a borrowed stream: it gets its last point when it comes home. The value 0 is for memory that another thread
// is moving: the memory is home or stands in a queue once the timeline is settled.
std::vector<spi::Point> PoolResource::pending_points(Lock& lock) {
  std::vector<spi::Point> points;
  look_at_all(lock);
  for (const Shard* shard = shards_; shard; shard = shard->next) {
    std::uint64_t last = shard->awaited != 0 ? shard->last_awaited : 0;
    if (shard->has_pending()) last = std::max(last, shard->pending->last());
    if (shard->away != 0) last = std::max(last, shard->stream.issued());
    if (last != 0) points.push_back({shard->kept, last});
  }
  add_uncounted_points(points);
  for (const Moving* moving = moving_; moving; moving = moving->next) points.push_back({spi::Kept(moving->from), 0});
  return points;
}

// Return the streams whose memory is away. Needs the mutex.
std::vector<spi::Kept> PoolResource::homes_of_away() const {
  std::vector<spi::Kept> homes;
  for (const Shard* shard = shards_; away_ != 0 && shard; shard = shard->next) {
    if (shard->away != 0) homes.push_back(shard->kept);
  }
  std::ranges::sort(homes, std::less<>{}, &spi::Kept::get);
  return homes;
}

// Return the points that memory got when it came home to these streams. Needs the mutex.
std::vector<spi::Point> PoolResource::pending_points_at(const std::vector<spi::Kept>& homes) {
  std::vector<spi::Point> points;
  for (const Shard* shard = shards_; !homes.empty() && shard; shard = shard->next) {
    if (!shard->has_pending()) continue;
    if (std::ranges::binary_search(homes, &shard->stream, std::less<>{}, &spi::Kept::get)) {
      points.push_back({shard->kept, shard->pending->last()});
    }
  }
  return points;
}

// Take out regions that nobody uses until at most `most_reserved` bytes are left. Return their blocks as a list through
// `next`.
spi::Block* PoolResource::take_unused(std::size_t most_reserved) noexcept {
  spi::Block* blocks = nullptr;
  while (arena_.bytes > most_reserved) {
    Region* const region = arena_.unused();
    if (!region) break;
    if (!region->large) small_ -= region->block->size / granule;
    spi::Block& block = arena_.remove(*region);
    block.next = std::exchange(blocks, &block);
    ++given_back_;
  }
  return blocks;
}

void PoolResource::give_back(spi::Block* blocks) noexcept {
  while (blocks) deallocate_to(*upstream_, *std::exchange(blocks, std::exchange(blocks->next, nullptr)));
}

// Give back what is free for every stream. Keep at least `least_free` bytes that are in no buffer, and at least
// `least_reserved` bytes in all. Return the bytes that are reserved afterwards.
std::size_t PoolResource::give_back_free(std::size_t least_free, std::size_t least_reserved) {
  spi::Block* blocks = nullptr;
  std::size_t left = 0;
  {
    Lock lock(mutex_);
    look_at_all(lock);
    const auto used = in_use();
    const auto keep = std::max(least_free, least_reserved - std::min(used, least_reserved));
    const auto given_back = given_back_;
    if (pages_) {
      end_pages(keep, lock);
    } else {
      blocks = take_unused(used + std::min(keep, ~std::size_t{0} - used));
    }
    if (given_back_ != given_back) pace_.gave_back();
    left = arena_.bytes;
  }
  give_back(blocks);
  return left;
}

namespace {

// Wait for the points. What waited for them comes home, also from streams that have no shard.
void wait_for(const std::vector<spi::Point>& points) noexcept {
  for (const spi::Point& point : points) {
    (void)detail::thrown_by([&] { (void)point.stream->wait_for(point.value, std::chrono::nanoseconds{-1}); });
    point.stream->settle();
  }
}

}  // namespace

// Wait twice, because memory that was away from a borrowed stream gets its last point when it comes home.
std::size_t PoolResource::trim(std::size_t bytes_to_keep) {
  const auto before = pool_stats().resource.reserved;
  if (is_exportable()) detail::settle_lent();
  Lock lock(mutex_);
  const auto homes = homes_of_away();
  const auto points = pending_points(lock);
  lock.unlock();
  wait_for(points);
  lock.lock();
  look_at_all(lock);  // ranges that waited for several streams come home
  const auto later_points = pending_points_at(homes);
  lock.unlock();
  wait_for(later_points);
  const auto after = give_back_free(bytes_to_keep, 0);
  upstream_->trim(bytes_to_keep);
  return before > after ? before - after : 0;
}

// Return whether no stream has a buffer left. Needs the mutex.
bool PoolResource::is_idle() noexcept {
  for (Shard* shard = shards_; shard; shard = shard->next) {
    if (shard->live() == 0) continue;
    unlink(*shard);  // to the front: the next call looks at it first
    link(*shard);
    return false;
  }
  return true;
}

// Return whether to give memory back now that some stream has no buffer left. While other streams have buffers, memory
// that was given back may be needed again at once. Needs the mutex.
bool PoolResource::may_release() noexcept { return arena_.bytes > release_threshold_ && (is_idle() || pace_.takes()); }

// Return false when another thread gives memory back: it goes on with what has been closed since. Needs the mutex.
bool PoolResource::begin_release() noexcept {
  release_again_ = std::exchange(releasing_, true);
  return !release_again_;
}

// Return whether others have closed more meanwhile. If not, the next thread may begin.
bool PoolResource::goes_on_releasing() noexcept {
  const Lock lock(mutex_);
  return releasing_ = release_again_ && arena_.bytes > release_threshold_;
}

// Give memory back once its last uses are complete: at once if they are already, otherwise on the library's thread.
void PoolResource::release_idle(ResourcePtr keep) noexcept {
  {
    Lock lock(mutex_);
    if (arena_.bytes <= release_threshold_) return;
    // The thread that gives back may be the library's, which cannot cover what others have put on an application's
    // stream.
    if (releasing_) look_at_all(lock);
    if (!begin_release()) return;
  }
  release_closed(keep);
}

// Give back what is free, whatever the rest waits for, and the rest later; then what others close meanwhile. One thread
// at a time does so. Because others may close without end, it leaves the rest to the library's thread after some
// rounds.
void PoolResource::release_closed(const ResourcePtr& keep) noexcept {
  constexpr int most_rounds = 4;
  int round = 0;
  try {
    do {
      if (round++ == most_rounds) return release_soon(keep);
      Lock lock(mutex_);
      release_again_ = false;  // what was closed before is free, or among the points
      auto points = pending_points(lock);
      auto left = arena_.bytes;
      const auto threshold = release_threshold_;
      lock.unlock();
      std::erase_if(points, [](const spi::Point& point) {
        return point.stream->finished(point.value) || point.stream->never_known(point.value);
      });
      (void)detail::thrown_by([&] { left = give_back_free(0, threshold); });  // else the next close tries again
      if (!points.empty() && left > threshold) release_after(std::move(points), keep);
    } while (goes_on_releasing());
  } catch (const std::exception&) {  // the next close tries again
    const Lock lock(mutex_);
    releasing_ = false;
  }
}

// Give back on the library's thread what others have closed, or with the next close. Only one such release stands in
// the queue.
void PoolResource::release_soon(const ResourcePtr& keep) noexcept {
  Lock lock(mutex_);
  releasing_ = false;
  const bool comes = std::exchange(release_comes_, true);
  lock.unlock();
  if (comes) return detail::Watcher::get().try_again();  // there may have been no thread for that release
  try {
    detail::run_soon(release_queue_, [this, keep] {
      {
        const Lock begins(mutex_);
        release_comes_ = false;
      }
      release_idle(keep);
    });
  } catch (const std::exception&) {
    lock.lock();
    release_comes_ = false;
  }
}

// Give back more once these points have passed, or will never be known to. A release that waits already goes on with
// what is left then.
void PoolResource::release_after(std::vector<spi::Point> points, const ResourcePtr& keep) {
  Lock lock(mutex_);
  const bool waits = std::exchange(release_waits_, true);
  release_goes_on_ = waits;
  lock.unlock();
  if (waits) return detail::Watcher::get().try_again();  // there may have been no thread for that release
  try {
    detail::run_after(
        release_queue_, std::move(points), [this, keep] { release_now(keep); }, detail::Unknown::skip);
  } catch (const std::exception&) {
    lock.lock();
    release_waits_ = false;
    throw;
  }
}

void PoolResource::release_now(const ResourcePtr& keep) noexcept {
  std::size_t threshold = 0;
  bool goes_on = false;
  {
    const Lock lock(mutex_);
    release_waits_ = false;
    if (!begin_release()) return;
    goes_on = std::exchange(release_goes_on_, false);
    threshold = release_threshold_;
  }
  if (!goes_on)
    (void)detail::thrown_by([&] { (void)give_back_free(0, threshold); });  // else the next close tries again
  if (goes_on || goes_on_releasing()) release_closed(keep);
}

void PoolResource::set_release_threshold(std::size_t bytes) noexcept {
  {
    const Lock lock(mutex_);
    release_threshold_ = bytes;
    const bool releases = bytes != ~std::size_t{0};
    pool_flags_ = releases ? std::uint64_t{CloseCount::releases} : 0;
    for (Shard* shard = shards_; shard; shard = shard->next) {
      releases ? set_flags(*shard, CloseCount::releases) : clear_flags(*shard, CloseCount::releases);
    }
  }
  if (auto keep = handle_or_none()) release_idle(std::move(keep));
}

ResourcePtr PoolResource::handle_or_none() noexcept {
  try {
    return do_handle();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

}  // namespace weir::pool
