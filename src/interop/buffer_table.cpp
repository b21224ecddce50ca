// SPDX-License-Identifier: Apache-2.0
#include "weir/interop/buffer_table.hpp"

#include <array>
#include <cassert>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/biased_lock.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/sync.hpp"

namespace weir {
namespace {

std::uint64_t hash(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) * 0x9e3779b97f4a7c15U;  // 2^64 divided by the golden ratio
}

struct Slot {
  sync::Plain<const void*> address = nullptr;  // null: the slot is empty
  void* tag = nullptr;
  Buffer buffer;
};

/// Open addressing: an entry stands in the slot of its hash or behind it, with no empty slot between.
class alignas(64) Stripe {
 public:
  void add(const void* address, Buffer& buffer, void* tag) {
    const std::scoped_lock guard(lock);
    if (4 * (used_ + 1) > 3 * slots_.size()) grow();
    insert(address, buffer, tag);
    ++used_;
  }

  Buffer take(const void* address, void** tag) noexcept {
    const std::scoped_lock guard(lock);
    if (used_ == 0) return {};
    for (std::size_t at = home(address); slots_[at].address; at = after(at)) {
      if (slots_[at].address != address) continue;
      Buffer found = std::move(slots_[at].buffer);
      if (tag) *tag = slots_[at].tag;
      close_gap(at);
      --used_;
      return found;
    }
    return {};
  }

  std::size_t size() const noexcept {
    const std::scoped_lock guard(lock);
    return used_;
  }

  mutable detail::BiasedLock lock;

 private:
  std::size_t home(const void* address) const noexcept {
    return static_cast<std::size_t>(hash(address) >> 24U) & (slots_.size() - 1);
  }
  std::size_t after(std::size_t at) const noexcept { return (at + 1) & (slots_.size() - 1); }

  void insert(const void* address, Buffer& buffer, void* tag) noexcept {
    std::size_t at = home(address);
    for (; slots_[at].address; at = after(at)) assert(slots_[at].address != address);
    slots_[at].address = address;
    slots_[at].tag = tag;
    slots_[at].buffer = std::move(buffer);
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 8 : 2 * slots_.size());
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.address) insert(slot.address, slot.buffer, slot.tag);
    }
  }

  // Move entries from behind the gap into it, as far as their hashes allow.
  void close_gap(std::size_t gap) noexcept {
    const auto distance = [last = slots_.size() - 1](std::size_t from, std::size_t to) {
      return (to - from) & last;
    };
    for (std::size_t at = after(gap); slots_[at].address; at = after(at)) {
      if (distance(home(slots_[at].address), at) < distance(gap, at)) continue;
      slots_[gap].address = slots_[at].address;
      slots_[gap].tag = slots_[at].tag;
      slots_[gap].buffer = std::move(slots_[at].buffer);
      gap = at;
    }
    slots_[gap].address = nullptr;
  }

  std::vector<Slot> slots_;
  sync::Plain<std::size_t> used_ = 0;
};

}  // namespace

struct BufferTable::State {
  Stripe& of(const void* address) noexcept { return stripes.at(hash(address) >> 58U); }

  void fork(spi::ForkMoment moment) noexcept {
    for (Stripe& stripe : stripes) stripe.lock.fork(moment);
  }

  std::array<Stripe, 64> stripes;
  spi::ForkLink link{*this};  // must be the last member
};

BufferTable::BufferTable() : state_(std::make_unique<State>()) {}
BufferTable::~BufferTable() = default;

void BufferTable::insert(const void* address, Buffer buffer, void* tag) {
  state_->of(address).add(address, buffer, tag);
}
Buffer BufferTable::take(const void* address, void** tag) noexcept { return state_->of(address).take(address, tag); }

std::size_t BufferTable::size() const noexcept {
  std::size_t sum = 0;
  for (const Stripe& stripe : state_->stripes) sum += stripe.size();
  return sum;
}

}  // namespace weir
