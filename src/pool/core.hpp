// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pool. A warm allocation and its close touch the stream's shard and nothing else (core.cpp); everything that looks
// beyond it holds the pool's mutex (slow.cpp); ends of streams, of the pool, and forks are in ends.cpp.
//
// Locks, in the order in which they are taken: all attachments, the mutex, one shard. None is held while upstream, a user's
// function, a question to a stream or the drop of its count runs.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "pool/arena.hpp"
#include "pool/pages.hpp"
#include "pool/shard.hpp"
#include "weir/resources/pool.hpp"
#include "weir/spi/fork_link.hpp"

namespace weir::pool {

class Core final : public Pool {
 public:
  static PoolPtr make(ResourcePtr upstream, const PoolOptions& options);
  ~Core() override;

  [[nodiscard]] ResourceStats stats() const override;
  [[nodiscard]] PoolStats pool_stats() const override;
  std::size_t trim(std::size_t bytes_to_keep) override;
  [[nodiscard]] ResourcePtr upstream() const override { return upstream_; }
  void set_limit(std::size_t bytes) noexcept override;
  void set_reuse_policy(ReusePolicy policy) noexcept override;
  void set_release_threshold(std::size_t bytes) noexcept override;
  [[nodiscard]] std::string dump() const override;

  void fork(spi::ForkMoment moment) noexcept;
  Core* next_pool = nullptr;  ///< of all pools; their lock guards it
  Core* previous_pool = nullptr;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Wanted {
    std::size_t bytes;
    std::uint64_t granules;  ///< rounded
    std::size_t alignment;
    bool large;
  };

  using Progress = spi::Attachment::Progress;
  struct Asked {
    spi::Ref<spi::StreamState> stream;  ///< keeps its shard
    Shard* shard = nullptr;  ///< null while it is not attached: of two that are made at once, one goes
    Progress progress{};
  };

  Core(ResourcePtr upstream, const PoolOptions& options);

  // core.cpp
  spi::Block* do_allocate_cached(const spi::Request& request) noexcept override;
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override;
  void do_deallocate(spi::Block& block) noexcept override;
  static spi::Block* take_slowly(Shard& shard, std::uint64_t wanted, std::size_t bytes) noexcept;
  [[gnu::always_inline]] static void begin(Shard& shard, Range& range, std::size_t bytes) noexcept {
    range.size = bytes;
    range.owners.store(1, std::memory_order_relaxed);
    shard.allocations += 1;
    shard.peak.raise(shard.in_use += bytes);
  }
  static void count_out(Shard& shard, std::size_t bytes) noexcept {
    shard.frees += 1;
    shard.in_use -= bytes;
  }
  Shard& attach(spi::StreamState& stream);

  // slow.cpp
  Range* allocate_slow(Shard& shard, const Wanted& wanted, Shortage& shortage);
  Range* cut(Shard& shard, const Wanted& wanted, RangeIndex::Search search);
  Range* cut_cached(Shard& shard, const Wanted& wanted, Lock& lock, std::vector<Asked>& streams);
  Range* cut_waited_for(Shard& shard, const Wanted& wanted, Lock& lock);
  struct Growing;
  Range* grow(Shard& shard, const Wanted& wanted, Lock& lock, Shortage& shortage);
  bool add_region(Shard* shard, bool large, std::size_t bytes, std::size_t least, Lock& lock, Shortage& shortage);
  bool ready_on(Shard* shard);
  std::vector<Asked> ask_streams();
  void flush(const std::vector<Asked>& streams, std::size_t from = 0, std::size_t to = classes) noexcept;
  void flush(Shard& shard, const Progress& progress, std::size_t from = 0, std::size_t to = classes) noexcept;
  static void settle_waiting(Shard& shard) noexcept;
  void settle_left() noexcept;
  void note_peaks() noexcept;
  [[nodiscard]] std::size_t in_use() const noexcept;
  void fill(Shortage& shortage) const noexcept;

  // release.cpp
  std::vector<spi::Point> pending_uses();
  std::vector<spi::Block*> take_unused(std::size_t most_reserved);
  void give_back(const std::vector<spi::Block*>& blocks) noexcept;
  std::size_t give_back_free(std::size_t least_free, std::size_t least_reserved);
  bool wait_for_uses(Lock& lock);
  ResourcePtr handle_or_none() noexcept;
  void release_idle(ResourcePtr keep) noexcept;
  void release_now(const ResourcePtr& keep) noexcept;
  void mark_releasing(Shard& shard) const noexcept;

  // paging.cpp
  struct Idle {
    Range* range;  ///< in which the page lies
    PageTable::Page page;
  };
  struct Plan {
    std::vector<Idle> idle;
    std::vector<std::uint64_t> to;  ///< where the first of those move; the others are given back
    std::vector<PageTable::Page> added;
    std::uint64_t granules_given_back = 0, granules_added = 0;
  };
  enum class Use { idle_and_new, new_only };
  bool add_pages(std::uint64_t granules, bool large, Lock& lock, Shortage& shortage, Use use = Use::idle_and_new);
  bool add_first_pages(std::uint64_t granules, Lock& lock, Shortage& shortage);
  void end_pages(std::size_t bytes_to_keep, Lock& lock);
  [[nodiscard]] std::vector<Idle> idle_pages() const;
  std::vector<Range*> lift(const std::vector<Idle>& pages);
  void strip(Range& range) noexcept;
  [[nodiscard]] Plan plan(const Arena::Opening& opening, bool moves) const;
  bool carry_out(const Plan& plan, std::size_t& done, Shortage& shortage);

  // ends.cpp
  void reserve_addresses();
  ResourcePtr do_handle() override;
  void abandon() noexcept;
  void close_slowly(Shard& shard, Range& range, std::size_t bytes) noexcept;
  static std::uint64_t unused(void* shard, const Progress& progress) noexcept;
  std::uint64_t stream_unused(Shard& shard, const Progress& progress) noexcept;
  void link(Shard& shard) noexcept;
  void unlink(Shard& shard) noexcept;
  void give_back_all() noexcept;

  const ResourcePtr upstream_;
  const Stream home_;  // on which upstream allocates
  const std::size_t segment_bytes_;
  const double growth_;
  const std::size_t alignment_;  // of regions; sizes are multiples of it, so all that lies in them has it

  mutable std::mutex mutex_;
  std::condition_variable grown_;
  bool growing_ = false;  // somebody is asking upstream
  std::thread::id grower_;  // who
  Arena arena_;
  std::optional<PageTable> pages_;
  std::size_t page_count_ = 0;  // of any size
  std::uint64_t small_ = 0;     // granules with memory for small requests
  Shard* shards_ = nullptr;
  std::size_t shard_count_ = 0;
  Range* left_ = nullptr;  // of ended streams, closed, but used on other streams that are not done
  std::size_t limit_;
  ReusePolicy reuse_;
  const std::chrono::nanoseconds patience_;
  std::size_t release_threshold_;
  bool releasing_ = false, release_again_ = false;
  std::size_t handles_ = 1;
  std::size_t abandoned_ = 0;  // shards that keep the pool although it has no handle
  std::size_t peak_in_use_ = 0, peak_reserved_ = 0;
  std::uint64_t allocations_ = 0, reuses_ = 0;  // of ended streams
  std::uint64_t waits_ = 0, grows_ = 0, moved_ = 0, given_back_ = 0;
};

/// While one exists, no other thread asks upstream.
struct Core::Growing {
  Growing(Core& pool, Lock& held) noexcept : core(pool), lock(held) {
    core.growing_ = true;
    core.grower_ = std::this_thread::get_id();
  }
  ~Growing() {
    if (!lock.owns_lock()) lock.lock();
    core.growing_ = false;
    core.grown_.notify_all();
  }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

  Core& core;
  Lock& lock;
};

}  // namespace weir::pool
