// SPDX-License-Identifier: Apache-2.0
#pragma once
// The least that a resource over another can be: it passes everything on and changes nothing.

#include <cstddef>
#include <memory>
#include <mutex>

#include "weir/memory_resource.hpp"

namespace weir::test {

/// Has the name and the traits of its upstream; only `upstream()` and `Buffer::memory_resource()` tell them apart.
class ForwardingResource final : public MemoryResource {
 public:
  explicit ForwardingResource(ResourcePtr upstream);

  [[nodiscard]] ResourceStats stats() const override { return upstream_->stats(); }
  std::size_t trim(std::size_t bytes_to_keep) override { return upstream_->trim(bytes_to_keep); }
  [[nodiscard]] ResourcePtr upstream() const override { return upstream_; }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override;
  void do_deallocate(spi::Block& block) noexcept override;

  ResourcePtr upstream_;
  std::mutex mutex_;
  std::size_t out_ = 0;                   // blocks that have to come back here
  std::shared_ptr<MemoryResource> self_;  // this, while there are any
};

}  // namespace weir::test
