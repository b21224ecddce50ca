// SPDX-License-Identifier: Apache-2.0
#include "pool/core.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

namespace weir::pool {

spi::Block* Core::do_allocate_cached(const spi::Request& request) noexcept {
  auto* const shard = static_cast<Shard*>(request.stream->state().attached(this));
  if (!shard || request.alignment > shard->less_than_unit + 1) [[unlikely]] return nullptr;
  const std::scoped_lock guard(shard->lock);
  Range* const range = shard->take(shard->granules(request.bytes));
  if (!range) [[unlikely]] return nullptr;
  shard->hits += 1;
  return &begin(*shard, *range, request.bytes);
}

spi::Block* Core::do_allocate(const spi::Request& request, Shortage& shortage) {
  spi::StreamState& stream = request.stream->state();
  auto* shard = static_cast<Shard*>(stream.attached(this));
  if (!shard) shard = &attach(stream);
  const auto granules = shard->granules(request.bytes);
  const auto alignment = request.alignment <= alignment_ ? granule : request.alignment;  // what all memory here has
  const auto needed = granules_with_slack(granules, alignment);
  if (needed > most_bytes / granule) {
    const Lock lock(mutex_);
    fill(shortage);
    return nullptr;
  }
  const bool large = needed > arena_.largest_small;
  Range* const range = allocate_slow(*shard, {request.bytes, granules, alignment, large}, shortage);
  if (!range) return nullptr;
  const std::scoped_lock guard(shard->lock);
  return &begin(*shard, *range, request.bytes);
}

Range& Core::begin(Shard& shard, Range& range, std::size_t bytes) noexcept {
  range.size = bytes;
  range.owners.store(1, std::memory_order_relaxed);
  shard.live += 1;
  shard.allocations += 1;
  shard.in_use += bytes;
  shard.peak.raise(shard.in_use);
  return range;
}

void Core::count_out(Shard& shard, std::size_t bytes) noexcept {
  shard.live -= 1;
  shard.in_use -= bytes;
}

void Core::do_deallocate(spi::Block& block) noexcept {
  auto& range = static_cast<Range&>(block);
  Shard& shard = *range.shard;
  const auto bytes = range.size;
  range.closed_at(shard.stream.issued());
  shard.lock.lock();
  if (shard.state != 0 || !range.only_at_home()) [[unlikely]] {
    shard.lock.unlock();
    return close_slowly(shard, range, bytes);
  }
  count_out(shard, bytes);
  shard.keep(range);
  shard.lock.unlock();
}

Shard& Core::attach(spi::StreamState& stream) {
  auto made = std::make_unique<Shard>(this, stream, alignment_);
  {
    const std::scoped_lock lock(mutex_);
    link(*made);
  }
  void* attached = nullptr;
  try {
    attached = stream.attach(this, made.get(), &Core::unused);
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    unlink(*made);
    throw;
  }
  if (attached == made.get()) return *made.release();
  const std::scoped_lock lock(mutex_);
  unlink(*made);
  return *static_cast<Shard*>(attached);
}

}  // namespace weir::pool
