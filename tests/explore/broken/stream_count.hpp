// SPDX-License-Identifier: Apache-2.0
#pragma once
// How streams once ended, reduced to the counts and locks: a native stream could be borrowed again while its last
// handle looked after what pools had attached to it, and the borrower then used what that handle freed. Kept to show
// that the explorer finds that.

#include <cstdint>
#include <mutex>

#include "weir/spi/sync.hpp"

namespace weir::broken {

class Stream;

/// What a pool keeps beside a stream.
struct Shard {
  sync::Mutex lock;
  sync::Plain<int> live{0};
};

/// All that the streams of this world share.
struct World {
  sync::Mutex registry;     // protects `known`
  sync::Mutex attachments;  // while it is held, no stream with attachments ends
  sync::Mutex pool;
  Stream* known = nullptr;
  bool last_step_first = false;  ///< the mended way
};

class Stream {
 public:
  Stream(World& world, bool with_shard) : world_(world) {
    if (with_shard) attached_.store(new Shard, std::memory_order_relaxed);
  }

  /// A count of the stream that is known, or of a new one.
  static Stream* borrow(World& world) {
    const std::scoped_lock lock(world.registry);
    if (world.known && world.known->try_retain()) return world.known;
    world.known = new Stream(world, false);
    return world.known;
  }

  /// Allocate and close, as a user of the stream does.
  void use() {
    Shard& shard = this->shard();
    {
      const std::scoped_lock lock(shard.lock);
      ++shard.live;
    }
    const std::scoped_lock lock(shard.lock);
    --shard.live;
  }

  void release() {
    if (world_.last_step_first) {
      if (owners_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      detach();
      return end();
    }
    auto owners = owners_.load(std::memory_order_relaxed);
    while (owners != 1) {
      if (owners_.compare_exchange_weak(owners, owners - 1, std::memory_order_acq_rel)) return;
    }
    if (!detach()) return release();
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
  }

 private:
  bool try_retain() {
    auto owners = owners_.load(std::memory_order_relaxed);
    while (owners != 0) {
      if (owners_.compare_exchange_weak(owners, owners + 1, std::memory_order_relaxed)) return true;
    }
    return false;
  }

  Shard& shard() {
    if (Shard* const found = attached_.load(std::memory_order_acquire)) return *found;
    const std::scoped_lock lock(world_.attachments);
    if (Shard* const faster = attached_.load(std::memory_order_acquire)) return *faster;
    auto* const made = new Shard;
    attached_.store(made, std::memory_order_release);
    return *made;
  }

  /// False when somebody uses the stream again.
  bool detach() {
    const std::scoped_lock lock(world_.attachments);
    Shard* const shard = attached_.load(std::memory_order_relaxed);
    if (!shard) return true;
    const std::scoped_lock of_pool(world_.pool);
    if (owners_.load(std::memory_order_acquire) > 1) return false;
    {
      const std::scoped_lock guard(shard->lock);
      if (shard->live != 0) return false;
    }
    delete shard;
    attached_.store(nullptr, std::memory_order_release);
    return true;
  }

  void end() {
    {
      const std::scoped_lock lock(world_.registry);
      if (world_.known == this) world_.known = nullptr;
    }
    delete this;
  }

  World& world_;
  sync::Atomic<std::uint32_t> owners_{1};
  sync::Atomic<Shard*> attached_{nullptr};
};

}  // namespace weir::broken
