// SPDX-License-Identifier: Apache-2.0
#include "pool/core.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

namespace weir::pool {

// The usual way calls nothing, so it keeps no registers for what comes after a call.
spi::Block* Core::do_allocate_cached(const spi::Request& request) noexcept {
  auto* const shard = static_cast<Shard*>(request.stream->state().attached(this));
  if (!shard || request.alignment > shard->less_than_unit + 1) [[unlikely]] return nullptr;
  const auto wanted = shard->granules(request.bytes);
  if (wanted > rounded_up_to || !shard->lock.enter()) [[unlikely]] return take_slowly(*shard, wanted, request.bytes);
  Range* const range = shard->take(wanted);
  if (range) [[likely]] begin(*shard, *range, request.bytes);
  shard->lock.leave();
  return range;
}

spi::Block* Core::take_slowly(Shard& shard, std::uint64_t wanted, std::size_t bytes) noexcept {
  const std::scoped_lock guard(shard.lock);
  Range* const range = wanted > rounded_up_to ? shard.take_large(wanted) : shard.take(wanted);
  if (range) begin(shard, *range, bytes);
  return range;
}

spi::Block* Core::do_allocate(const spi::Request& request, Shortage& shortage) {
  spi::StreamState& stream = request.stream->state();
  auto* shard = static_cast<Shard*>(stream.attached(this));
  if (!shard) shard = &attach(stream);
  const auto granules = rounded(shard->granules(request.bytes));
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
  begin(*shard, *range, request.bytes);
  shard->misses += 1;
  return range;
}

void Core::do_deallocate(spi::Block& block) noexcept {
  auto& range = static_cast<Range&>(block);
  Shard& shard = *range.shard;
  const auto bytes = range.size;
  range.closed_at(shard.stream.issued());
  if (!shard.lock.enter()) [[unlikely]] return close_slowly(shard, range, bytes);
  if (shard.state != 0 || !range.only_at_home()) [[unlikely]] {
    shard.lock.leave();
    return close_slowly(shard, range, bytes);
  }
  count_out(shard, bytes);
  shard.keep(range);
  shard.lock.leave();
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
