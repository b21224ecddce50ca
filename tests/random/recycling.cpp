// SPDX-License-Identifier: Apache-2.0
#include "recycling.hpp"

#include <algorithm>
#include <utility>

#include "weir/spi/stream_state.hpp"

namespace weir::test::random {
namespace {

// The block's cookie: the alignment it was asked for.
void* as_cookie(std::size_t alignment) { return reinterpret_cast<void*>(alignment); }

}  // namespace

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
  block->cookie = as_cookie(request.alignment);
  const std::scoped_lock lock(mutex_);
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
  for (const spi::Point& point : found.points) request.stream->wait({point.stream, point.value});
  (void)found.block->take_points();
  found.block->stream = spi::Ref<spi::StreamState>::retain(&request.stream->state());
  found.block->owners.store(1);
  return found.block;
}

void Recycling::do_deallocate(spi::Block& block) noexcept {
  std::shared_ptr<MemoryResource> last;  // dropped without the lock
  const std::scoped_lock lock(mutex_);
  // The block keeps its own record as well, for the upstream.
  kept_.push_back({&block, block.uses(), reinterpret_cast<std::size_t>(block.cookie)});
  if (--out_ == 0) last = std::move(self_);
}

void Recycling::give_back() {
  std::vector<Kept> all;
  {
    const std::scoped_lock lock(mutex_);
    all.swap(kept_);
  }
  for (const Kept& kept : all) {
    kept.block->cookie = nullptr;
    deallocate_to(*upstream_, *kept.block);
  }
}

}  // namespace weir::test::random
