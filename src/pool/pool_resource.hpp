// SPDX-License-Identifier: Apache-2.0
#pragma once
// The pool. A warm allocation and its close touch the thread's cache of the stream and nothing else (fast.cpp).
// Nearly everything else takes the pool's mutex. All other closes are in close.cpp. An allocation that its cache cannot
// serve searches the free ranges (search.cpp), after collecting what other streams are done with (collect.cpp), and
// finally grows the pool (grow.cpp, pages/paging.cpp). Memory goes back to upstream in release.cpp. Streams end in
// streams.cpp, and the pool itself in lifetime.cpp.
//
// Locks, in the order in which they are taken: that of all attachments, that of all pools, the pool's mutex, caches.
// None of them is held while upstream or a user's function runs, while a stream is asked how far it is, or while a use
// of a stream is dropped.

#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pool/arena/arena.hpp"
#include "pool/cache/shard.hpp"
#include "pool/pages/page_table.hpp"
#include "pool/pages/restlessness.hpp"
#include "pool/release_pace.hpp"
#include "stream/release_queue.hpp"
#include "weir/pool.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/sync.hpp"

namespace weir::pool {

class PoolResource final : public Pool {
 public:
  static PoolPtr make(ResourcePtr upstream, const PoolOptions& options);
  ~PoolResource() override;

  [[nodiscard]] ResourceStats stats() const override;
  [[nodiscard]] PoolStats pool_stats() const override;
  std::size_t trim(std::size_t bytes_to_keep) override;
  [[nodiscard]] ResourcePtr upstream() const override { return upstream_; }
  void set_limit(std::size_t bytes) noexcept override;
  void set_reuse_policy(ReusePolicy policy) noexcept override;
  void set_release_threshold(std::size_t bytes) noexcept override;
  [[nodiscard]] std::string dump() const override;

  void abandon() noexcept;  ///< for handle_of()
  void fork(spi::ForkMoment moment) noexcept;
  PoolResource* next_pool = nullptr;  ///< in the list of all pools, whose lock guards it
  PoolResource* previous_pool = nullptr;

 private:
  using Lock = std::unique_lock<sync::Mutex>;
  struct Wanted {
    std::size_t bytes;
    std::uint64_t granules;  ///< rounded up
    std::size_t alignment;
    bool large;
  };

  PoolResource(ResourcePtr upstream, const PoolOptions& options);

  // fast.cpp
  spi::Block* do_allocate_cached(const spi::Request& request) noexcept override;
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override;
  void do_deallocate(spi::Block& block) noexcept override;
  static spi::Block* take_slowly(Cache& cache, const spi::Request& request) noexcept;
  static bool keep_at_home(Cache& cache, Range& range, std::size_t bytes) noexcept;
  template <class Action>
  static bool at_home(Cache& cache, const Action& action) noexcept;
  Cache& cache_of(spi::StreamState& stream, sync::ThreadId thread);
  Shard& shard_of(spi::StreamState& stream);

  // close.cpp
  void close_slowly(Cache& cache, Range& range, std::size_t bytes) noexcept;
  void count(Cache& cache, std::size_t bytes) noexcept;
  void count_flagged(Cache& cache) noexcept;
  static bool wait_together(Cache& cache, Range& range, std::size_t bytes, spi::Uses& uses) noexcept;
  void wait_elsewhere(Cache& cache, Range& range, std::size_t bytes, spi::Uses& uses) noexcept;
  static void passed(spi::Waiter& waiter, spi::InHand& others) noexcept;
  void wait_on(Range& range) noexcept;
  struct Moving {  ///< exists while a thread moves ranges from the queue of a timeline to those of others
    spi::StreamState& from;
    Moving* next = nullptr;
  };
  Range* drop_points(Range* several, Moving* moving = nullptr) noexcept;
  void has_moved(const Moving& moving) noexcept;
  struct Returned;
  void come_back(Returned& ranges, Shard*& ended) noexcept;
  void take_out_if_removable(Shard& shard, Shard*& ended) noexcept;

  // collect.cpp
  struct Asked {
    Shard* shard;
    bool awaited, gives;
    spi::Progress progress{};
  };
  struct Effort {  ///< how much a look does at most
    std::size_t streams, ranges;   ///< `ranges`: those that streams still use, and those that wait for a stream
    std::size_t over = ranges;  ///< ranges in caches that no stream uses any more
  };
  struct Sort {  ///< size classes [from, to)
    std::size_t from = 0, to = classes;
  };
  std::size_t look(Lock& lock, Shard* first, Sort sort, Effort effort);
  void look_at_all(Lock& lock);
  static std::size_t ask(std::span<Asked> asked, std::size_t ranges) noexcept;
  void empty_caches(std::span<const Asked> asked, Sort sort, Effort effort) noexcept;
  void empty_cache(Cache& cache, const spi::Progress& progress, Sort sort, Effort& left) noexcept;
  void clear_pending(Shard& shard, std::uint64_t over, std::size_t& ranges) noexcept;
  void list(Cache& cache) noexcept;
  void link_asked(Shard& shard) noexcept;
  void unlink_asked(Shard& shard) noexcept;
  void settle_place(Shard& shard) noexcept;
  void note(Cache& cache) noexcept;
  [[nodiscard]] bool has_pending() const noexcept;

  // search.cpp
  bool fetch_away(Shard& shard, Lock& lock) noexcept;
  Range* allocate_slow(Cache& cache, const Wanted& wanted, Lock& lock, Shortage& shortage);
  Range* cut(Shard& shard, const Wanted& wanted, RangeIndex::Search search);
  Range* look_and_cut(Shard& shard, const Wanted& wanted, Lock& lock);
  void unpin(Shard& shard, Lock& lock) noexcept;
  Range* cut_waited_for(Shard& shard, const Wanted& wanted, std::size_t streams, Lock& lock);
  bool put_wait(Shard& shard, Shard& other, Range& range, Lock& lock);
  Range* last_resort(Shard& shard, const Wanted& wanted, std::uint64_t released, std::uint64_t freed, Lock& lock,
                     Shortage& shortage);
  void wait_a_little(Lock& lock, std::chrono::nanoseconds most) noexcept;
  [[nodiscard]] bool awaits_returns(Lock& lock) const;
  bool await_release(const Wanted& wanted, std::uint64_t released, std::chrono::nanoseconds most, Lock& lock) const;

  // grow.cpp
  struct Growing;
  enum class Use {  ///< of pages
    new_only,
    idle_and_new,  ///< idle ones move to where they fit
    all_idle       ///< those that fit nowhere are given back besides, for new ones in their place
  };
  Range* grow(Shard& shard, const Wanted& wanted, Lock& lock, Shortage& shortage, Use use = Use::idle_and_new);
  [[nodiscard]] std::uint64_t lent_page() const noexcept;
  bool add_region(Shard* shard, bool large, std::size_t bytes, std::size_t least, Lock& lock, Shortage& shortage);
  bool ready_on(Shard* shard);

  // release.cpp
  void add_uncounted_points(std::vector<spi::Point>& points) const;
  std::vector<spi::Point> pending_points(Lock& lock);
  [[nodiscard]] std::vector<spi::Kept> homes_of_away() const;
  std::vector<spi::Point> pending_points_at(const std::vector<spi::Kept>& homes);
  [[nodiscard]] spi::Block* take_unused(std::size_t most_reserved) noexcept;
  void give_back(spi::Block* blocks) noexcept;
  std::size_t give_back_free(std::size_t least_free, std::size_t least_reserved);
  ResourcePtr handle_or_none() noexcept;
  void release_idle(ResourcePtr keep) noexcept;
  void release_closed(const ResourcePtr& keep) noexcept;
  void release_soon(const ResourcePtr& keep) noexcept;
  void release_after(std::vector<spi::Point> points, const ResourcePtr& keep);
  void release_now(const ResourcePtr& keep) noexcept;
  [[nodiscard]] bool begin_release() noexcept;
  [[nodiscard]] bool goes_on_releasing() noexcept;
  [[nodiscard]] bool may_release() noexcept;
  [[nodiscard]] bool is_idle() noexcept;

  // pages/paging.cpp
  struct Idle {
    Range* range;  ///< the free range that contains the page
    PageTable::Page page;
  };
  struct Plan {
    std::vector<Idle> idle;
    std::vector<std::uint64_t> to;  ///< where the first of `idle` move; the others are given back
    std::vector<PageTable::Page> added;
    std::uint64_t granules_given_back = 0, granules_added = 0;
  };
  bool add_pages(std::uint64_t granules, bool large, Lock& lock, Shortage& shortage, Use use = Use::idle_and_new);
  bool add_new_pages(std::uint64_t granules, bool large, Lock& lock, Shortage& shortage);
  bool add_first_pages(std::uint64_t granules, Lock& lock, Shortage& shortage);
  void end_pages(std::size_t bytes_to_keep, Lock& lock);
  [[nodiscard]] std::vector<Idle> idle_pages(std::uint64_t wanted, std::size_t among) const;
  std::vector<Range*> lift(const std::vector<Idle>& pages);
  void strip(Range& range) noexcept;
  [[nodiscard]] Plan plan(const Arena::Opening& opening, Use use) const;
  bool carry_out(const Plan& plan, std::size_t& done, Shortage& shortage);

  // make.cpp
  void reserve_addresses();

  // stats.cpp
  [[nodiscard]] std::size_t in_use() const noexcept;
  void fill(Shortage& shortage) const noexcept;

  // streams.cpp
  static const spi::AttachmentEvents stream_events;
  void stream_forgotten(Shard& shard) noexcept;
  void stream_closed(Shard& shard, std::uint64_t last) noexcept;
  spi::AttachmentEvents::Answer stream_over(Shard& shard) noexcept;
  static void set_flags(Shard& shard, std::uint64_t flags) noexcept;
  static void clear_flags(Shard& shard, std::uint64_t flags) noexcept;
  void link(Shard& shard) noexcept;
  void unlink(Shard& shard) noexcept;
  void take_out(Shard& shard) noexcept;
  void empty_over(Shard& shard, std::size_t ranges) noexcept;
  [[nodiscard]] static bool removable(const Shard& shard) noexcept;
  static void dispose(Shard* shard) noexcept;

  // lifetime.cpp
  void mark_awaited() noexcept;
  template <class F>
  void for_each_cache(F function) const {
    for (const Shard* shard = shards_; shard; shard = shard->next) shard->for_each_cache(function);
  }
  void visit_caches() noexcept;
  static void visit_caches_of(Shard& shard) noexcept;
  ResourcePtr do_handle() override;
  [[nodiscard]] bool at_end() const noexcept { return handles_ == 0 && abandoned_ == 0 && away_ == 0 && !moving_; }
  void give_back_all() noexcept;

  const ResourcePtr upstream_;
  const Stream home_;  // the stream on which upstream allocates
  const std::size_t segment_bytes_;
  const double growth_;
  const std::size_t alignment_;  // of regions; sizes of ranges are multiples of it, so every range has it

  mutable sync::Mutex mutex_;
  sync::Condition grown_;
  bool growing_ = false;     // a thread is asking upstream
  sync::Thread::id grower_;  // that thread
  Arena arena_;
  std::optional<PageTable> pages_;
  std::size_t page_count_ = 0;  // pages of any size
  Restlessness restlessness_;
  std::uint64_t searches_ = 0;  // requests that no cache served
  std::uint64_t small_ = 0;     // granules of memory for small requests
  Shard* shards_ = nullptr;
  std::size_t shard_count_ = 0;
  Shard* asked_ = nullptr;  // the next to ask, in the ring of shards that are worth a question
  std::size_t asked_count_ = 0;
  std::size_t away_ = 0;       // closed ranges that wait in the queues of other streams
  std::size_t uncounted_ = 0;  // points that these wait for and that no shard counts: of streams that may have ended
  Moving* moving_ = nullptr;   // a list of all that there are
  std::size_t limit_;
  ReusePolicy reuse_;
  const std::chrono::nanoseconds patience_;
  std::size_t release_threshold_;
  bool releasing_ = false;        // a thread gives memory back
  bool release_again_ = false;    // others have closed more meanwhile, at which that thread looks, too
  bool release_comes_ = false;    // a release that waits for nothing stands in the queue
  bool release_waits_ = false;    // a release that waits for points stands in the queue
  bool release_goes_on_ = false;  // that one is to look at what has been closed since
  ReleasePace pace_;
  detail::ReleaseQueue release_queue_;
  std::size_t handles_ = 1;
  sync::Atomic<bool> alone_{false};  // the pool has no handle, so nobody will look after what waits
  std::size_t abandoned_ = 0;        // shards that keep the pool alive although it has no handle
  std::uint64_t pool_flags_ = 0;     // flags that every cache has
  std::size_t noted_in_use_ = 0;     // sum of the bytes that caches had in use when they were last noted
  std::size_t peak_in_use_ = 0, peak_reserved_ = 0;
  std::uint64_t allocations_ = 0, reuses_ = 0;  // of ended streams
  std::uint64_t waits_ = 0, grows_ = 0, moved_ = 0, given_back_ = 0;
};

/// Do `action` inside the cache. Return false without doing it when the cache is not biased towards this thread, and
/// when the pool wants to hear of closes.
template <class Action>
[[gnu::always_inline]] inline bool PoolResource::at_home(Cache& cache, const Action& action) noexcept {
  auto* const seat = cache.lock.enter();
  if (!seat) [[unlikely]]
    return false;
  const bool usual = cache.closes.flags() == 0;
  if (usual) [[likely]]
    action();
  detail::BiasedLock::exit(seat);
  return usual;
}

/// Put the range of a closed buffer back into its cache: the common case. Return false as at_home does.
[[gnu::always_inline]] inline bool PoolResource::keep_at_home(Cache& cache, Range& range, std::size_t bytes) noexcept {
  return at_home(cache, [&] {
    cache.count_out(bytes);
    cache.keep(range);
  });
}

/// While this exists, no other thread asks upstream for the pool.
struct PoolResource::Growing {
  Growing(PoolResource& of, Lock& held) noexcept : pool(of), lock(held) {
    pool.growing_ = true;
    pool.grower_ = sync::thread_id();
    before = std::exchange(some(), true);
  }
  ~Growing() {
    some() = before;
    if (!lock.owns_lock()) lock.lock();
    pool.growing_ = false;
    pool.grown_.notify_all();
  }
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;

  /// Return whether this thread is asking upstream for any pool.
  static bool& some() noexcept { return sync::flag_of_thread<Growing>(); }

  PoolResource& pool;
  Lock& lock;
  bool before = false;
};

}  // namespace weir::pool
