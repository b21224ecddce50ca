// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a pool knows about one stream: a cache for each thread that uses the stream, the free ranges that this stream
// may use before others, and how many ranges wait for it.

#include <cstdint>
#include <memory>

#include "pool/arena/pending_ranges.hpp"
#include "pool/cache/cache.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::pool {

class PoolResource;

class Shard {
 public:
  Shard(PoolResource& owner, spi::StreamState& of) noexcept : stream(of), pool(owner) {}
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  ~Shard() {
    while (caches) delete std::exchange(caches, caches->next);
  }

  template <class F>
  void for_each_cache(F function) const {
    for (Cache* cache = caches; cache; cache = cache->next) function(*cache);
  }
  [[nodiscard]] std::size_t live() const noexcept {  ///< buffers; as exact as Cache::live
    std::uint64_t sum = 0;
    for_each_cache([&](const Cache& cache) { sum += cache.live(); });
    return sum;
  }
  [[nodiscard]] bool has_pending() const noexcept { return pending && !pending->empty(); }

  spi::StreamState& stream;
  const spi::Kept kept{stream};
  PoolResource& pool;

  // The pool's mutex guards these.
  Cache* caches = nullptr;
  std::size_t cache_count = 0;
  Cache* shared = nullptr;  ///< one of `caches`, for all threads that get none of their own
  std::uint64_t flags = 0;  ///< CloseCount::Flag values that all of `caches` have
  std::size_t pins = 0;     ///< while it is not 0 the shard stays, because somebody asks its stream
  sync::Atomic<bool> unlinked{false};  ///< the shard is ending: no event of the stream concerns it any more
  std::unique_ptr<PendingRanges> pending;  ///< made when it is first needed
  std::size_t unemptied = 0;  ///< caches that may have ranges for other streams
  std::size_t awaited = 0;    ///< points of this stream that ranges of the pool wait for
  std::uint64_t last_awaited = 0;  ///< the latest of these points
  std::size_t away = 0;       ///< its own ranges that wait in the queues of other streams
  Shard* awaits = nullptr;    ///< shard of a stream that one of these waits for; pinned by this one
  std::uint32_t ask_again = 1, until_asked = 1;  ///< slow allocations between questions to `awaits`, and until the next
  std::uint64_t last = 0;     ///< last value of the stream, once it is closed
  bool closed = false;
  bool over = false;          ///< the stream is closed and has passed that value
  Shard *next = nullptr, *previous = nullptr;          ///< in the list of all shards of the pool
  /// In the ring of the shards that have something to give, or are waited for.
  Shard *next_asked = nullptr, *previous_asked = nullptr;
};

}  // namespace weir::pool
