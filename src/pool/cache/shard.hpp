// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a pool knows of one stream: a cache for each thread that uses it, the free ranges that this stream may use before
// others, and how many ranges wait for it.

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
  [[nodiscard]] std::size_t live() const noexcept {  ///< buffers; as Cache::live
    std::uint64_t sum = 0;
    for_each_cache([&](const Cache& cache) { sum += cache.live(); });
    return sum;
  }
  [[nodiscard]] bool has_pending() const noexcept { return pending && !pending->empty(); }

  spi::StreamState& stream;
  const spi::Kept kept{stream};
  PoolResource& pool;

  // Under the pool's mutex.
  Cache* caches = nullptr;
  std::size_t cache_count = 0;
  Cache* shared = nullptr;  ///< of them: for threads beyond the most that have their own
  std::uint64_t flags = 0;  ///< that all of them have; CloseCount::Flag
  std::size_t pins = 0;     ///< it stays while somebody asks the stream
  sync::Atomic<bool> unlinked{false};  ///< on its way out: no event of the stream concerns it any more
  std::unique_ptr<PendingRanges> pending;  ///< made when it is needed first
  std::size_t unemptied = 0;  ///< caches that may have something for others
  std::size_t awaited = 0;    ///< points of this stream that ranges of the pool wait for
  std::uint64_t last_awaited = 0;  ///< the latest of them
  std::size_t away = 0;       ///< its own ranges that wait for other streams
  Shard* awaits = nullptr;    ///< pinned: the stream that one of these waits for
  std::uint32_t ask_again = 1, until_asked = 1;  ///< after so many slow allocations
  std::uint64_t last = 0;     ///< value of the closed stream
  bool closed = false;
  bool over = false;          ///< and that value has passed
  Shard *next = nullptr, *previous = nullptr;          ///< all of the pool
  Shard *next_asked = nullptr, *previous_asked = nullptr;  ///< ring of those that have something to give, or are waited for
};

}  // namespace weir::pool
