// SPDX-License-Identifier: Apache-2.0
#pragma once
// What all adaptors share: a resource over an owned upstream that counts what went through it, hands out
// upstream's own blocks, and lives until both its last handle and its last buffer are gone.

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "base/biased_lock.hpp"
#include "memory/handle.hpp"
#include "memory/lent.hpp"
#include "weir/buffer.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/fork_link.hpp"

namespace weir::detail {

/// Return `upstream`. Throw invalid_argument naming the factory when it is null.
inline ResourcePtr checked_upstream(ResourcePtr upstream, const char* factory) {
  if (!upstream) throw Error(Errc::invalid_argument, std::string(factory) + ": upstream is null");
  return upstream;
}

/// Base of an adaptor whose public face is `Interface`. Make it with make_adaptor. By itself it passes everything on.
/// An adaptor overrides do_allocate and do_deallocate, and calls the protected functions below in them.
/// Locks: handle_mutex_, then lock(). Neither is held while upstream or a user's function runs.
template <class Interface>
class Adaptor : public Interface {
 public:
  [[nodiscard]] ResourceStats stats() const final {
    ResourceStats stats = upstream_->stats();
    count_lent(*this, stats);
    const std::scoped_lock guard(lock_);
    stats.in_use = in_use_;
    stats.peak_in_use = peak_;
    stats.live_buffers = live_;
    stats.allocations = allocations_;
    return stats;
  }
  std::size_t trim(std::size_t bytes_to_keep) override { return upstream_->trim(bytes_to_keep); }
  [[nodiscard]] ResourcePtr upstream() const final { return upstream_; }

  /// Give up a handle.
  void abandon() noexcept {
    bool last = false;
    {
      const std::scoped_lock guard(lock_);
      last = handles_ == 1;
    }
    if (last) last_handle_goes();
    leave([this] { --handles_; });
  }

 protected:
  Adaptor(ResourcePtr upstream, const char* kind)
      : Interface(upstream->device(), std::string(kind) + "(" + upstream->name() + ")",
                  {upstream->kind(), upstream->is_host_accessible(), upstream->is_device_accessible(),
                   upstream->is_exportable(), upstream->reuses_memory()}),
        upstream_(std::move(upstream)) {}
  ~Adaptor() override = default;

  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    spi::Block* const block = take(request, shortage);
    if (block) came(request.bytes);
    return block;
  }
  void do_deallocate(spi::Block& block) noexcept override { give_back(block); }

  /// Take a block from upstream that comes back here, or return null. The block is not counted yet.
  spi::Block* take(const spi::Request& request, Shortage& shortage) {
    spi::Block* const block = MemoryResource::allocate_from(*upstream_, request, shortage);
    if (!block) return refused(shortage);
    block->resource = this;
    return block;
  }
  /// Return null, with the bytes in use filled into `shortage`.
  spi::Block* refused(Shortage& shortage) const noexcept {
    const std::scoped_lock guard(lock_);
    shortage.in_use = in_use_;
    return nullptr;
  }
  /// Count a new buffer. `also` runs under the lock, for whatever else an adaptor counts.
  template <class Also>
  void came(std::size_t bytes, Also also) noexcept {
    const std::scoped_lock guard(lock_);
    ++live_;
    ++allocations_;
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    also();
  }
  void came(std::size_t bytes) noexcept {
    came(bytes, [] {});
  }
  /// Give a counted block back to upstream, and count it out afterwards. The adaptor may be gone after that.
  void give_back(spi::Block& block) noexcept {
    const auto bytes = block.size;
    MemoryResource::deallocate_to(*upstream_, block);
    gone(bytes);
  }
  /// Count a buffer out. The adaptor may be gone after that.
  void gone(std::size_t bytes) noexcept {
    leave([&] {
      --live_;
      in_use_ -= bytes;
    });
  }
  /// Called before the last handle goes. Buffers may live on, and may lead to a new handle. Must not throw.
  virtual void last_handle_goes() noexcept {}

  ResourcePtr do_handle() override {
    return handle_of(*this, handle_mutex_, [this] {
      const std::scoped_lock guard(lock_);
      ++handles_;
    });
  }

  [[nodiscard]] BiasedLock& lock() const noexcept { return lock_; }
  // Call these under lock(). They are for adaptors that decide by these figures.
  [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }
  [[nodiscard]] std::size_t live() const noexcept { return live_; }

  const ResourcePtr upstream_;

 private:
  friend class spi::ForkLink;
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::before) {
      handle_mutex_.lock();
      lock_.fork(moment);
    } else {
      lock_.fork(moment);
      handle_mutex_.unlock();
    }
  }

  template <class Change>
  void leave(Change change) noexcept {
    bool last = false;
    {
      const std::scoped_lock guard(lock_);
      change();
      last = live_ == 0 && handles_ == 0;
    }
    if (last) delete this;
  }

  std::mutex handle_mutex_;  // one new handle at a time
  mutable BiasedLock lock_;
  std::size_t handles_ = 1;  // groups of handles that share a reference count
  std::size_t live_ = 0;
  std::size_t in_use_ = 0;
  std::size_t peak_ = 0;
  std::uint64_t allocations_ = 0;
  spi::ForkLink link_{*this};  // must be the last member
};

/// Make an adaptor and return its first handle.
template <class A, class... Arguments>
std::shared_ptr<A> make_adaptor(Arguments&&... arguments) {
  return first_handle(new A(std::forward<Arguments>(arguments)...));
}

}  // namespace weir::detail
