// SPDX-License-Identifier: Apache-2.0
#pragma once
// A pool: memory from another resource, handed out again and again without asking it. Start with make_pool.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "weir/memory_resource.hpp"

namespace weir {

/// When memory that was used on one stream last may go to another while that use is not over. The stream that gets it
/// then waits for that use, and for nothing later.
enum class ReusePolicy {
  passed_only,            ///< never
  wait_rather_than_fail,  ///< when upstream has no more
  wait_rather_than_grow,  ///< before upstream is asked
};

struct PoolOptions {
  std::size_t initial_bytes = 0;   ///< taken from upstream at once, for requests of every size
  std::size_t limit = std::numeric_limits<std::size_t>::max();  ///< most bytes that are reserved
  std::size_t segment_bytes = std::size_t{16} << 20;            ///< least that upstream is asked for; larger requests get their own
  /// Part of what there is for small requests that is taken at once when they need more, if it is more than a segment:
  /// so many gigabytes of small buffers take some hundred calls. From 0, always by segments, to 1, which doubles.
  double growth = 1.0 / 32;
  std::size_t alignment = default_alignment;  ///< of every buffer, at least: a power of two of at most 2 MiB
  ReusePolicy reuse = ReusePolicy::wait_rather_than_fail;
  /// Reserved bytes above which free memory goes back to upstream by itself once a stream has no buffer left: after the
  /// last uses, by a thread of weir if they are not over. While other streams have buffers, it is tried ever more
  /// rarely (up to every 65 536th time) as long as the pool had to grow again after the last time. 0: an idle pool
  /// holds nothing. The default keeps everything. With any other value each close takes the pool's lock.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  /// How long, before it fails, an allocation goes on waiting for what streams still do with closed memory. It fails
  /// earlier when there is nothing to wait for: buffers that others have and leases are not waited for. 0: not at all.
  std::chrono::nanoseconds patience = std::chrono::seconds{1};
  /// Buffers can be given to other processes. Upstream's must be; the pool then is not paged. What was exported is used
  /// again only when every importer is done, or gone. A process that opens one buffer reaches the whole segment around it.
  bool exportable = false;
  bool paged = true;  ///< where upstream can: take memory by pages, and move idle pages to where memory is needed
};

/// What a pool has and did. Bytes unless named otherwise.
struct PoolStats {
  ResourceStats resource;
  std::size_t cached = 0;         ///< reserved and in no buffer
  std::size_t largest_free = 0;   ///< largest range that is free for every stream, caches of streams not counted
  std::size_t segments = 0;       ///< count, from upstream; of a paged pool, its pages
  std::size_t streams = 0;        ///< count, that have a cache
  std::uint64_t reuses = 0;       ///< allocations served by the thread's own cache of the stream
  std::uint64_t waits = 0;        ///< stream-side waits inserted for memory of other streams
  std::uint64_t grown = 0;        ///< times that upstream gave memory
  std::uint64_t given_back = 0;   ///< segments or pages that upstream got back
  std::uint64_t moved = 0;        ///< idle pages that were put under other addresses
};

/// A resource that sub-allocates another. Allocating what the same thread closed before on the same stream costs no
/// driver call, no malloc and no event; memory goes back to the thread that allocated it, whichever thread closes it.
/// Ordering is that of every resource: memory is reused only after its recorded uses. The host waits for them in
/// `trim`, and for `patience` in an allocation that would fail otherwise; nowhere else.
///
/// Sizes are rounded up to 256 bytes and, up to 1 MiB, to 16 steps per doubling. The pool lives until its last buffer
/// is closed, also without a handle.
///
/// Over memory that can be paged (CUDA, kind vmm, not exportable) all buffers lie in one range of addresses. Memory
/// that no buffer and no pending use has is then moved to addresses where a request fits, page by page, before upstream
/// is asked for more: a buffer's address never changes, and fragmentation costs next to nothing.
///
/// `stats()` is exact while nobody allocates or closes. `peak_in_use` is exact, but for the rounding of sizes, if
/// one thread allocates and closes all buffers on one stream, no other stream uses them, and there is no release
/// threshold. Otherwise it is an estimate, which may be too low or too high: each thread's own peak on each stream
/// counts closes of other kinds late, and the sum over threads and streams is made when the pool looks beyond a cache.
class Pool : public MemoryResource {
 public:
  [[nodiscard]] virtual PoolStats pool_stats() const = 0;
  /// Most bytes that may be reserved from now on; memory above it is not taken back.
  virtual void set_limit(std::size_t bytes) noexcept = 0;
  virtual void set_reuse_policy(ReusePolicy policy) noexcept = 0;
  virtual void set_release_threshold(std::size_t bytes) noexcept = 0;
  /// Everything that the pool has at this moment, as JSON (docs/resources.md): statistics, streams, and every range of
  /// memory. Takes a moment during which only warm allocations and closes go on.
  [[nodiscard]] virtual std::string dump() const = 0;

 protected:
  using MemoryResource::MemoryResource;
};
using PoolPtr = std::shared_ptr<Pool>;

/// Pool over `upstream`. Throws invalid_argument for options that no pool can have, unsupported for an exportable one over
/// memory that is not, OutOfMemory for the initial bytes.
[[nodiscard]] PoolPtr make_pool(ResourcePtr upstream, const PoolOptions& options = {});
/// Pool over the plain resource of the device's kind whose memory can be paged, or of its default kind. An exportable one
/// takes the first kind that can be exported, the default kind before others.
[[nodiscard]] PoolPtr make_pool(const Device& device, const PoolOptions& options = {});

}  // namespace weir
