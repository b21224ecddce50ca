// SPDX-License-Identifier: Apache-2.0
#include "block_store.hpp"

#include "weir/spi/stream_state.hpp"

#include <utility>

namespace weir::detail {

BlockStore::~BlockStore() {
  while (free_) delete std::exchange(free_, free_->next);
}

spi::Block& BlockStore::take(MemoryResource& resource, const Stream& stream) {
  auto reference = spi::Ref<spi::StreamState>::retain(&stream.state());
  const std::scoped_lock lock(mutex_);
  if (!free_) free_ = new spi::Block;
  free_->reserve_points();
  spi::Block* block = std::exchange(free_, free_->next);
  if (out_++ == 0) self_ = resource.shared_from_this();
  block->resource = &resource;
  block->stream = reference.detach();
  block->owners.store(1, std::memory_order_relaxed);
  block->next = nullptr;
  return *block;
}

std::shared_ptr<MemoryResource> BlockStore::put(spi::Block& block) noexcept {
  const auto reference = spi::Ref<spi::StreamState>::adopt(std::exchange(block.stream, nullptr));  // dropped last
  block.segment = nullptr;
  block.offset = block.size = 0;
  const std::scoped_lock lock(mutex_);
  block.next = std::exchange(free_, &block);
  return --out_ == 0 ? std::move(self_) : nullptr;
}

void BlockStore::fork(spi::ForkMoment moment) noexcept {
  moment == spi::ForkMoment::before ? mutex_.lock() : mutex_.unlock();
}

}  // namespace weir::detail
