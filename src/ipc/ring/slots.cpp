// SPDX-License-Identifier: Apache-2.0
#include "ipc/ring/slots.hpp"

#include <limits>
#include <utility>

#include "base/forks.hpp"
#include "base/thrown_by.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/location.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail::ring {
namespace {

constexpr std::size_t page = 4096;

// Large slots begin on pages, and small ones are not spread over the memory.
std::size_t stride_of(std::size_t bytes) {
  const std::size_t unit = bytes < page ? default_alignment : page;
  return bytes > std::numeric_limits<std::size_t>::max() - unit ? bytes : (bytes + unit - 1) / unit * unit;
}

}  // namespace

std::shared_ptr<Slots> Slots::make(MemoryResource& resource, std::size_t count, std::size_t bytes) {
  const Stream home(resource.device());
  const std::size_t stride = stride_of(bytes), most = std::numeric_limits<std::size_t>::max();
  Buffer memory = resource.allocate(stride > most / count ? most : stride * count, home, page);
  return std::make_shared<Slots>(std::move(memory), home, count, bytes, stride);
}

Slots::Slots(Buffer memory, Stream home, std::size_t count, std::size_t bytes, std::size_t stride)
    : ForeignResource(memory.device().state(), "ring", true, true),
      memory_(std::move(memory)),
      home_(std::move(home)),
      bytes_(bytes),
      stride_(stride),
      process_(fork_generation),
      all_(std::make_unique<Slot[]>(count)) {
  free_.reserve(count);
  for (std::size_t i = count; i-- > 0;) {
    all_[i].slots = this;
    all_[i].index = static_cast<std::uint32_t>(i);
    free_.push_back(all_[i].index);
  }
}

std::optional<Buffer> Slots::try_take(const Stream& stream) {
  const auto index = pop();
  if (!index) return std::nullopt;
  Slot& slot = all_[*index];
  Buffer taken;
  try {
    memory_.order_after_uses(stream);
    const auto place = memory_.location();
    spi::Block& block = make_block(spi::Ref<spi::Segment>::retain(place.segment), place.offset + *index * stride_,
                                   bytes_, bytes_, home_, Reserves::its_bytes);
    BlockStore::tag(block) = &slot;
    taken = Buffer(block);
  } catch (...) {
    push(*index);
    throw;
  }
  slot.taken_for = nullptr;
  slot.published = false;
  taken.block()->used(stream.state(), 0);  // makes room for the use that is recorded later; else the slot goes back
  slot.taken_for = &stream.state();
  return taken;
}

bool Slots::owns(const Buffer& buffer) const noexcept {
  const spi::Block* const block = buffer.block();
  return block && block->resource == this;
}

void Slots::used_where_taken(const Buffer& slot, const Stream& publishing) {
  spi::Block& block = *slot.block();
  spi::StreamState& user = *slot_of(block).taken_for;
  if (&user != &publishing.state()) block.used(user, user.position());
}

void Slots::published(const Buffer& slot) noexcept { slot_of(*slot.block()).published = true; }

void Slots::end(spi::Block& block) noexcept {
  Slot& slot = slot_of(block);
  const bool recorded = !slot.taken_for || slot.published || process_ != fork_generation;
  if (!recorded) (void)thrown_by([&] { block.used(*slot.taken_for, slot.taken_for->position()); });
  end_block(block, false, slot);
}

std::optional<std::uint32_t> Slots::pop() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return std::nullopt;
  const std::uint32_t index = free_.back();
  free_.pop_back();
  return index;
}

// A forked child has no part in the ring, and its copy of the lock may be locked for ever.
void Slots::push(std::uint32_t index) noexcept {
  if (process_ != fork_generation) return;
  const std::scoped_lock lock(mutex_);
  free_.push_back(index);
  if (std::exchange(all_[index].dropped, false)) --dropping_;
  ++news_;
  changed_.notify_all();
}

void Slots::drops(const Buffer& buffer) noexcept {
  const std::scoped_lock lock(mutex_);
  auto& slot = *static_cast<Slot*>(BlockStore::tag(*buffer.block()));
  if (!std::exchange(slot.dropped, true)) ++dropping_;
}

std::size_t Slots::dropping() const {
  const std::scoped_lock lock(mutex_);
  return dropping_;
}

void Slots::nudge() noexcept {
  const std::scoped_lock lock(mutex_);
  ++news_;
  changed_.notify_all();
}

std::size_t Slots::free() const {
  const std::scoped_lock lock(mutex_);
  return free_.size();
}

std::uint64_t Slots::news() const {
  const std::scoped_lock lock(mutex_);
  return news_;
}

bool Slots::wait(std::uint64_t seen, const channel::Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto changed = [&] { return news_ != seen; };
  if (!deadline.endless()) return changed_.wait_until(lock, deadline.at(), changed);
  changed_.wait(lock, changed);
  return true;
}

}  // namespace weir::detail::ring
