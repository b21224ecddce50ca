// SPDX-License-Identifier: Apache-2.0
#include "memory/block_store.hpp"

#include <exception>
#include <mutex>
#include <utility>

#include "stream/releases.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail {

struct BlockStore::Stored final : spi::Block, Release {
  Stored() { points().reserve(1); }
  using Release::points;

  [[nodiscard]] bool is_over() {
    for (const auto& point : points().entries()) {
      if (!point.stream->finished(point.value)) return false;
    }
    return true;
  }
  // Put the driver's free on the one stream that still uses the memory. Return false when the driver has no such free,
  // when somebody else keeps the segment, when that stream cannot take the free, or when several streams are not done:
  // none of them may be made to wait for another.
  bool release_in_order() {
    if (!segment->frees_in_order() || segment->has_more_owners()) return false;
    const auto& entries = points().entries();
    const spi::Points::Entry* busy = nullptr;
    for (const auto& point : entries) {
      const bool done = entries.size() > 1 && point.stream->finished(point.value);
      if (done) continue;
      if (busy) return false;
      busy = &point;
    }
    if (!busy) busy = &entries.back();
    if (busy->stream->lost() || &busy->stream->device() != segment->device) return false;
    busy->stream->put(spi::FreeOp{spi::Ref<spi::Segment>::retain(segment)});
    return true;
  }
  void run() noexcept override {
    const auto bytes = segment->size;
    give_back(*std::exchange(segment, nullptr));
    listener->segment_released(bytes);
    store->recycle(*this);
  }

  BlockStore* store = nullptr;
  ReleaseListener* listener = nullptr;
  void* tag = nullptr;
};

BlockStore::~BlockStore() { trim(); }

void BlockStore::trim() noexcept {
  Stored* spare = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    spare = std::exchange(free_, nullptr);
  }
  while (spare) delete std::exchange(spare, static_cast<Stored*>(spare->next));
}

spi::Block& BlockStore::take(MemoryResource& resource, const Stream& stream) {
  spi::StreamState& home = stream.state();
  const std::scoped_lock lock(mutex_);
  if (!free_) free_ = new Stored;
  Stored* block = std::exchange(free_, static_cast<Stored*>(free_->next));
  if (out_++ == 0) self_ = resource.shared_from_this();
  block->store = this;
  block->resource = &resource;
  block->stream = &home;
  home.retain_memory();
  block->owners.store(1, std::memory_order_relaxed);
  block->next = nullptr;
  return *block;
}

void BlockStore::put_back(spi::Block& block) noexcept {
  std::exchange(block.stream, nullptr)->release_memory();
  recycle(static_cast<Stored&>(block));
}

bool BlockStore::owns(const spi::Block& block) const noexcept {
  return static_cast<const Stored&>(block).store == this;
}

void*& BlockStore::tag(spi::Block& block) noexcept { return static_cast<Stored&>(block).tag; }

void BlockStore::end(spi::Block& block, bool release_blocks, ReleaseListener& listener) noexcept {
  auto& stored = static_cast<Stored&>(block);
  stored.listener = &listener;
  const auto last = [](spi::StreamState* stream) { stream->release_memory(); };
  const std::unique_ptr<spi::StreamState, decltype(last)> home(std::exchange(block.stream, nullptr));
  if (block.segment->device->inherited) {
    block.forget_uses();
    return stored.run();
  }
  if (spi::Uses* const uses = block.take_uses(); uses && !uses->empty()) stored.points().swap(*uses);
  stored.points().add(*home, home->position(), spi::Points::How::keep);  // there is room for it
  const bool blocks = release_blocks || block.segment->has_views();
  bool now = !blocks && !block.segment->frees_in_order() && stored.is_over();
  try {
    now = now || stored.release_in_order();
  } catch (const std::exception&) {  // nothing was put: the stream is lost, or there is no memory
  }
  if (!now) return queue_.add(stored);
  stored.points().clear();
  stored.run();
}

void BlockStore::recycle(Stored& block) noexcept {
  block.offset = block.size = 0;
  std::shared_ptr<MemoryResource> last;  // destroyed after the lock
  const std::scoped_lock lock(mutex_);
  block.next = std::exchange(free_, &block);
  if (--out_ == 0) last = std::move(self_);
}

}  // namespace weir::detail
