// SPDX-License-Identifier: Apache-2.0
#include "forwarding.hpp"

#include <utility>

#include "weir/spi/block.hpp"

namespace weir::test {

ForwardingResource::ForwardingResource(ResourcePtr upstream)
    : MemoryResource(upstream->device(), upstream->name(),
                     {upstream->kind(), upstream->is_host_accessible(), upstream->is_device_accessible(),
                      upstream->is_exportable(), upstream->reuses_memory()}),
      upstream_(std::move(upstream)) {}

spi::Block* ForwardingResource::do_allocate(const spi::Request& request, Shortage& shortage) {
  spi::Block* block = allocate_from(*upstream_, request, shortage);
  if (!block) return nullptr;
  block->resource = this;
  const std::scoped_lock lock(mutex_);
  if (out_++ == 0) self_ = shared_from_this();
  return block;
}

void ForwardingResource::do_deallocate(spi::Block& block) noexcept {
  deallocate_to(*upstream_, block);
  std::shared_ptr<MemoryResource> last;  // ends after the lock, and this with it
  const std::scoped_lock lock(mutex_);
  if (--out_ == 0) last = std::move(self_);
}

}  // namespace weir::test
