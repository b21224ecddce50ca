// SPDX-License-Identifier: Apache-2.0
#pragma once
// An upstream that does what a test says at each request: serve, refuse, throw, or something else first.

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/block.hpp"

namespace weir::test {

/// Over ordinary host memory. Counts what it has out.
class Scripted final : public MemoryResource {
 public:
  struct Asked {
    std::size_t bytes, alignment;
  };
  /// Whether to serve the request. May throw.
  using Script = std::function<bool(const Asked&)>;

  explicit Scripted(Script script = nullptr)
      : MemoryResource(host_device(), "scripted", {MemoryKind::pageable, true, true, false}),
        script_(std::move(script)),
        upstream_(host::make_pageable_resource()) {}

  [[nodiscard]] ResourceStats stats() const override { return upstream_->stats(); }
  std::size_t trim(std::size_t bytes_to_keep) override { return upstream_->trim(bytes_to_keep); }

  [[nodiscard]] std::vector<Asked> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }
  void follow(Script script) {
    const std::scoped_lock lock(mutex_);
    script_ = std::move(script);
  }
  /// Call once when a block came back, its memory and its record being free for others.
  void when_returned(std::function<void()> function) {
    const std::scoped_lock lock(mutex_);
    returned_ = std::move(function);
  }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    Script script;
    {
      const std::scoped_lock lock(mutex_);
      asked_.push_back({request.bytes, request.alignment});
      script = script_;
    }
    if (script && !script({request.bytes, request.alignment})) {
      shortage.call = "script";
      shortage.reserved = upstream_->stats().reserved;
      return nullptr;
    }
    return allocate_from(*upstream_, request, shortage);  // comes back to upstream_, which keeps itself alive
  }
  void do_deallocate(spi::Block& block) noexcept override {
    deallocate_to(*upstream_, block);
    std::function<void()> returned;
    {
      const std::scoped_lock lock(mutex_);
      returned = std::exchange(returned_, nullptr);
    }
    if (returned) returned();
  }

  mutable std::mutex mutex_;
  Script script_;
  std::function<void()> returned_;
  std::vector<Asked> asked_;
  ResourcePtr upstream_;
};

}  // namespace weir::test
