// SPDX-License-Identifier: Apache-2.0
// How a pool grows, and how it gets more memory from upstream when it has no pages. With pages: pages/paging.cpp.
#include <algorithm>

#include "pool/pool_resource.hpp"

namespace weir::pool {
namespace {

using Search = RangeIndex::Search;

}  // namespace

Range* PoolResource::grow(Shard& shard, const Wanted& wanted, Lock& lock, Shortage& shortage, Use use) {
  if (growing_ && grower_ == sync::thread_id()) return nullptr;  // called from a function that upstream called
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
  if (pages_ && use == Use::all_idle) {
    added = add_pages(granules, wanted.large, lock, shortage, use);
  } else if (pages_) {
    const auto most = is_exportable() ? std::max(ahead, lent_page()) : ahead;
    added = add_new_pages(granules, wanted.large, lock, shortage) ||
            (most > std::max(granules, pages_->unit) && add_pages(most, wanted.large, lock, shortage)) ||
            add_pages(granules, wanted.large, lock, shortage);
  } else {
    const auto segments = static_cast<std::size_t>(ahead) * granule / segment_bytes_ * segment_bytes_;
    added = add_region(&shard, wanted.large, std::max({segment_bytes_, segments, least}), least, lock, shortage);
  }
  return added ? cut(shard, wanted, Search::thorough) : nullptr;
}

// Other processes open each page of an exportable pool by itself, so pages grow with the pool, whatever they are for.
std::uint64_t PoolResource::lent_page() const noexcept {
  const auto part = static_cast<std::uint64_t>(static_cast<double>(arena_.bytes / granule) * growth_);
  return std::max<std::uint64_t>(segment_bytes_ / granule, std::min<std::uint64_t>(part, most_bytes / granule));
}

// Ask upstream for a region: without the lock, and in one thread at a time. When the pool would become larger than it
// ever was, or than its limit, regions that are wholly free go back first: they were too small for the request.
bool PoolResource::add_region(Shard* shard, bool large, std::size_t bytes, std::size_t least, Lock& lock, Shortage& shortage) {
  const Growing growing(*this, lock);
  const auto give_back_unused = [&](std::size_t most_reserved) {
    spi::Block* const blocks = take_unused(most_reserved);
    lock.unlock();
    give_back(blocks);
    lock.lock();
    return blocks != nullptr;
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
    if (!everywhere && !shard->pending) shard->pending = std::make_unique<PendingRanges>();
    arena_.add(*this, *block, large, everywhere ? nullptr : shard, everywhere ? 0 : shard->stream.issued());
    if (!everywhere) settle_place(*shard);
  } catch (...) {
    if (lock.owns_lock()) lock.unlock();
    deallocate_to(*upstream_, *block);
    throw;
  }
  if (!large) small_ += block->size / granule;
  ++grows_;
  pace_.grew();
  peak_reserved_ = std::max(peak_reserved_, arena_.bytes);
  shortage = {};
  return true;
}

// Upstream may have enqueued the allocation on the stream that it was given. Then only the stream that needs the
// memory waits for it; without such a stream, the host does. Return true when no stream has to wait.
bool PoolResource::ready_on(Shard* shard) {
  spi::StreamState& home = home_.state();
  const auto allocated = home.position();
  if (home.reached(allocated)) return true;
  if (shard) {
    shard->stream.put(spi::WaitOp{.other = spi::Kept(home), .value = allocated, .for_space = true});
    return false;
  }
  home_.synchronize();
  return true;
}

}  // namespace weir::pool
