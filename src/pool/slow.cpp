// SPDX-License-Identifier: Apache-2.0
// What looks beyond one stream's cache: other streams, the free ranges of all, upstream.
#include <algorithm>
#include <utility>

#include "pool/core.hpp"

namespace weir::pool {
namespace {

using Search = RangeIndex::Search;

}  // namespace

Range* Core::allocate_slow(Shard& shard, const Wanted& wanted, Shortage& shortage) {
  if (shard.waiting_count != 0) settle_waiting(shard);
  std::vector<Asked> streams;  // ends without the lock
  Lock lock(mutex_);
  Range* range = cut(shard, wanted, Search::quick);
  if (!range) range = cut_cached(shard, wanted, lock, streams);
  if (!range && reuse_ == ReusePolicy::wait_rather_than_grow) range = cut_waited_for(shard, wanted, lock);
  if (!range) range = grow(shard, wanted, lock, shortage);
  const Wanted as_large{wanted.bytes, wanted.granules, wanted.alignment, true};
  const bool may_be_large = pages_ && !wanted.large;
  if (!range && may_be_large) range = cut(shard, as_large, Search::thorough);
  if (reuse_ == ReusePolicy::wait_rather_than_fail) {
    if (!range) range = cut_waited_for(shard, wanted, lock);
    if (!range && may_be_large) range = cut_waited_for(shard, as_large, lock);
  }
  if (!range && patience_ != std::chrono::nanoseconds{0} && wait_for_uses(lock)) {
    range = cut(shard, wanted, Search::thorough);
    if (!range) range = grow(shard, wanted, lock, shortage);
    if (!range && may_be_large) range = cut(shard, as_large, Search::thorough);
  }
  if (!range) {
    fill(shortage);
    return nullptr;
  }
  range->shard = &shard;
  range->stream = &shard.stream;
  return range;
}

Range* Core::cut(Shard& shard, const Wanted& wanted, Search search) {
  const auto from = [&](FreeRanges& index) {
    return index.empty() ? nullptr : arena_.cut(index, wanted.granules, wanted.alignment, search, wanted.large);
  };
  Range* const own = from(shard.free);
  return own ? own : from(arena_.everyones);
}

// What streams cache goes into the indices first: that of the sort that is wanted, then everything.
Range* Core::cut_cached(Shard& shard, const Wanted& wanted, Lock& lock, std::vector<Asked>& streams) {
  lock.unlock();
  streams = ask_streams();
  lock.lock();
  note_peaks();
  const auto first_large = class_below(arena_.largest_small);
  wanted.large ? flush(streams, first_large) : flush(streams, 0, first_large + 1);
  if (Range* const range = cut(shard, wanted, Search::thorough)) return range;
  flush(streams);
  return cut(shard, wanted, Search::thorough);
}

// Take what another stream used last, and let this one wait for that use.
Range* Core::cut_waited_for(Shard& shard, const Wanted& wanted, Lock& lock) {
  Range* range = nullptr;
  Shard* other = shards_;
  for (; other; other = other->next) {
    if (other == &shard || other->free.empty()) continue;
    range = arena_.cut(other->free, wanted.granules, wanted.alignment, Search::thorough, wanted.large);
    if (range) break;
  }
  if (!range) return nullptr;
  auto used_on = spi::Ref<spi::StreamState>::retain(&other->stream);  // and with it the shard
  lock.unlock();
  try {
    shard.stream.put(spi::WaitOp{used_on, range->closed_at()});
  } catch (...) {
    lock.lock();
    arena_.put(*range);
    lock.unlock();
    throw;
  }
  used_on = {};
  lock.lock();
  ++waits_;
  return range;
}

Range* Core::grow(Shard& shard, const Wanted& wanted, Lock& lock, Shortage& shortage) {
  if (growing_ && grower_ == std::this_thread::get_id()) return nullptr;  // a function that upstream called
  while (growing_) {
    grown_.wait(lock);
    if (Range* const range = cut(shard, wanted, Search::quick)) return range;
  }
  const auto granules = granules_with_slack(wanted.granules, wanted.alignment);
  const auto least = static_cast<std::size_t>(granules) * granule;
  const bool mostly_small = !wanted.large && small_ > arena_.bytes / granule / 2;
  const auto part = mostly_small ? static_cast<std::uint64_t>(static_cast<double>(small_) * growth_) : 0;
  const auto ahead = std::min<std::uint64_t>(part, most_bytes / granule);
  bool added = false;
  if (pages_) {
    added = (ahead > std::max(granules, pages_->unit) && add_pages(ahead, false, lock, shortage)) ||
            add_pages(granules, wanted.large, lock, shortage);
  } else {
    const auto segments = static_cast<std::size_t>(ahead) * granule / segment_bytes_ * segment_bytes_;
    added = add_region(&shard, wanted.large, std::max({segment_bytes_, segments, least}), least, lock, shortage);
  }
  return added ? cut(shard, wanted, Search::thorough) : nullptr;
}

// Upstream is asked without the lock, by one thread at a time. What is free as a whole goes back first when the pool would
// become larger than it ever was: it was too small for the request.
bool Core::add_region(Shard* shard, bool large, std::size_t bytes, std::size_t least, Lock& lock, Shortage& shortage) {
  const Growing growing(*this, lock);
  const auto give_back_unused = [&](std::size_t most_reserved) {
    const auto blocks = take_unused(most_reserved);
    lock.unlock();
    give_back(blocks);
    lock.lock();
    return !blocks.empty();
  };
  const auto room = [&] { return limit_ - std::min(limit_, arena_.bytes); };
  const auto most = std::min(peak_reserved_, limit_);
  if (arena_.bytes + bytes > most) give_back_unused(most > bytes ? most - bytes : 0);
  if (room() < bytes) bytes = std::max(least, room() / alignment_ * alignment_);
  if (room() < bytes) {
    shortage.limit = limit_;
    return false;
  }
  const auto ask = [&] {
    lock.unlock();
    spi::Block* got = allocate_from(*upstream_, {bytes, alignment_, &home_}, shortage);
    while (!got && bytes > least) {
      bytes = bytes > segment_bytes_ ? std::max(segment_bytes_, least) : least;
      got = allocate_from(*upstream_, {bytes, alignment_, &home_}, shortage);
    }
    lock.lock();
    return got;
  };
  spi::Block* block = ask();
  if (!block && give_back_unused(0)) block = ask();
  if (!block) return false;
  try {
    lock.unlock();
    const bool everywhere = ready_on(shard);
    lock.lock();
    arena_.add(*this, *block, large, everywhere ? nullptr : shard, everywhere ? 0 : shard->stream.issued());
  } catch (...) {
    if (lock.owns_lock()) lock.unlock();
    deallocate_to(*upstream_, *block);
    throw;
  }
  if (!large) small_ += block->size / granule;
  ++grows_;
  peak_reserved_ = std::max(peak_reserved_, arena_.bytes);
  shortage = {};
  return true;
}

// Upstream may have put the allocation on the stream it was asked for. Only the stream that needs the memory waits then;
// true when nobody has to.
bool Core::ready_on(Shard* shard) {
  spi::StreamState& home = home_.state();
  const auto allocated = home.position();
  if (home.reached(allocated)) return true;
  if (shard) {
    shard->stream.put(spi::WaitOp{spi::Ref<spi::StreamState>::retain(&home), allocated});
    return false;
  }
  home_.synchronize();
  return true;
}

// What each stream is done with, after its uses on others have been looked at again.
std::vector<Core::Asked> Core::ask_streams() {
  std::vector<Asked> streams;
  bool left = false;
  {
    const Lock lock(mutex_);
    left = left_ != nullptr;
    streams.reserve(shard_count_);
    for (Shard* shard = shards_; shard; shard = shard->next) {
      streams.push_back({spi::Ref<spi::StreamState>::retain(&shard->stream)});
    }
  }
  if (left) settle_left();
  for (Asked& asked : streams) {
    asked.shard = static_cast<Shard*>(asked.stream->attached(this));
    if (!asked.shard) continue;
    if (asked.shard->waiting_count != 0) settle_waiting(*asked.shard);
    asked.progress = asked.stream->progress();
  }
  return streams;
}

void Core::flush(const std::vector<Asked>& streams, std::size_t from, std::size_t to) noexcept {
  for (const Asked& asked : streams) {
    if (asked.shard) flush(*asked.shard, asked.progress, from, to);
  }
}

// Hand what the shard caches in classes [from, to) to the indices: to everyone's where the stream is done with it. What was closed after
// `outside` stays in the cache: others may have used it since.
void Core::flush(Shard& shard, const Progress& progress, std::size_t from, std::size_t to) noexcept {
  const auto [outside, over] = progress;
  Range* cached = nullptr;
  {
    const std::scoped_lock guard(shard.lock);
    cached = shard.take_all(from, to);
  }
  while (cached) {
    Range& range = *std::exchange(cached, static_cast<Range*>(cached->next));
    if (outside != 0 && range.closed_at() >= outside) {
      const std::scoped_lock guard(shard.lock);
      shard.keep(range);
      continue;
    }
    if (outside != 0) range.closed_at(outside);
    if (range.closed_at() <= over) range.shard = nullptr;
    arena_.put(range);
  }
  shard.free.for_each([&, last = over](Range& range) {
    if (range.closed_at() <= last) arena_.clear(range);
  });
}

// Streams are asked, and may end, without a lock.
void Core::settle_waiting(Shard& shard) noexcept {
  Range* waiting = nullptr;
  {
    const std::scoped_lock guard(shard.lock);
    waiting = shard.take_waiting();
  }
  if (!waiting) return;
  spi::Block::Unfinished known;
  Range* over = nullptr;
  Range* not_over = nullptr;
  while (waiting) {
    Range& range = *std::exchange(waiting, static_cast<Range*>(waiting->next));
    Range*& list = range.settle_uses(known) ? over : not_over;
    range.next = list;
    list = &range;
  }
  const std::scoped_lock guard(shard.lock);
  while (over) shard.keep(*std::exchange(over, static_cast<Range*>(over->next)));
  while (not_over) shard.wait(*std::exchange(not_over, static_cast<Range*>(not_over->next)));
  shard.settle_at = 2 * shard.waiting_count + 32;
}

void Core::settle_left() noexcept {
  Range* waiting = nullptr;
  {
    const Lock lock(mutex_);
    waiting = std::exchange(left_, nullptr);
  }
  spi::Block::Unfinished known;
  while (waiting) {
    Range& range = *std::exchange(waiting, static_cast<Range*>(waiting->next));
    const bool over = range.settle_uses(known);
    const Lock lock(mutex_);
    if (over) {
      arena_.put(range);
    } else {
      range.next = std::exchange(left_, &range);
    }
  }
}

std::size_t Core::in_use() const noexcept {
  std::size_t bytes = 0;
  for (Shard* shard = shards_; shard; shard = shard->next) {
    bytes += shard->in_use;
  }
  return bytes;
}

void Core::note_peaks() noexcept {
  std::size_t bytes = 0;
  for (Shard* shard = shards_; shard; shard = shard->next) {
    bytes += shard->in_use;
    peak_in_use_ = std::max<std::size_t>(peak_in_use_, shard->peak);
  }
  peak_in_use_ = std::max(peak_in_use_, bytes);
}

void Core::fill(Shortage& shortage) const noexcept {
  shortage.in_use = in_use();
  shortage.reserved = arena_.bytes;
  shortage.largest_free = static_cast<std::size_t>(arena_.everyones.largest()) * granule;
}

}  // namespace weir::pool
