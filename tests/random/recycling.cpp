// SPDX-License-Identifier: Apache-2.0
#include "recycling.hpp"

#include <algorithm>
#include <utility>

#include "weir/spi/stream_state.hpp"

namespace weir::test::random {
Recycling::Recycling(ResourcePtr upstream, Reuse reuse)
    : MemoryResource(upstream->device(), "recycling(" + upstream->name() + ")",
                     {upstream->kind(), upstream->is_host_accessible(), upstream->is_device_accessible(),
                      upstream->is_exportable()}),
      upstream_(std::move(upstream)),
      reuse_(reuse) {}

Recycling::~Recycling() { give_back(); }

std::size_t Recycling::trim(std::size_t bytes_to_keep) {
  give_back();
  return upstream_->trim(bytes_to_keep);
}

spi::Block* Recycling::do_allocate(const spi::Request& request, Shortage& shortage) {
  spi::Block* block = take_kept(request);
  if (!block) block = allocate_from(*upstream_, request, shortage);
  if (!block) return nullptr;
  block->resource = this;
  const std::scoped_lock lock(mutex_);
  out_alignments_[block] = request.alignment;
  if (out_++ == 0) self_ = shared_from_this();
  return block;
}

spi::Block* Recycling::take_kept(const spi::Request& request) {
  Kept found{};
  {
    const std::scoped_lock lock(mutex_);
    const auto fits = [&](const Kept& kept) {
      if (kept.block->size != request.bytes || kept.alignment < request.alignment) return false;
      return reuse_ == Reuse::ordered ||
             std::all_of(kept.points.begin(), kept.points.end(),
                         [](const spi::Point& point) { return point.stream->reached(point.value); });
    };
    const auto last = std::find_if(kept_.rbegin(), kept_.rend(), fits);
    if (last == kept_.rend()) return nullptr;
    found = std::move(*last);
    kept_.erase(std::next(last).base());
  }
  for (const spi::Point& point : found.points) request.stream->state().put(spi::WaitOp{point.stream, point.value});
  found.block->forget_uses();
  // Its store holds a count of the stream and will drop one.
  const auto before = spi::Ref<spi::StreamState>::adopt(found.block->stream);
  found.block->stream = spi::Ref<spi::StreamState>::retain(&request.stream->state()).detach();
  found.block->owners.store(1);
  return found.block;
}

void Recycling::do_deallocate(spi::Block& block) noexcept {
  std::shared_ptr<MemoryResource> last;  // dropped without the lock
  const std::scoped_lock lock(mutex_);
  // The block keeps its own record as well, for the upstream.
  kept_.push_back({&block, block.uses(), out_alignments_[&block]});
  if (--out_ == 0) last = std::move(self_);
}

void Recycling::give_back() {
  std::vector<Kept> all;
  {
    const std::scoped_lock lock(mutex_);
    all.swap(kept_);
  }
  for (const Kept& kept : all) deallocate_to(*upstream_, *kept.block);
}

}  // namespace weir::test::random
