// SPDX-License-Identifier: Apache-2.0
#pragma once
// A pool takes memory from another resource and hands it out again and again without asking that resource. Start with
// make_pool.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// When the pool may give memory to a stream although its last use, on another stream, is not complete. The stream that
/// gets the memory then waits for that use, and for nothing later.
enum class ReusePolicy {
  passed_only,            ///< never
  wait_rather_than_fail,  ///< when upstream has no more memory
  wait_rather_than_grow,  ///< before upstream is asked
};

/// Options of make_pool. Sizes are in bytes.
struct PoolOptions {
  std::size_t initial_bytes = 0;   ///< taken from upstream when the pool is made, for requests of every size
  std::size_t limit = std::numeric_limits<std::size_t>::max();  ///< most bytes that may be reserved
  /// The least that upstream is asked for at a time, unless the limit or upstream allows only less. A larger request
  /// gets a segment of its own. A paged pool takes only what is missing, unless other processes open its pages.
  std::size_t segment_bytes = std::size_t{16} << 20;
  /// How much is taken at once when small requests need more memory: this part of the memory that there is for them, if
  /// that is more than a segment. Many gigabytes of small buffers then take only a few hundred calls. Where other
  /// processes open pages, each of which costs them a file and calls of their driver, this is for all requests: the
  /// part of all memory, in one page. With 0 the pool always grows by segments; with 1, the largest value, it doubles.
  double growth = 1.0 / 32;
  std::size_t alignment = default_alignment;  ///< least alignment of every buffer: a power of two of at most 2 MiB
  ReusePolicy reuse = ReusePolicy::wait_rather_than_fail;  ///< of memory that another stream used last
  /// The number of reserved bytes above which free memory goes back to upstream by itself, once a stream has no buffer
  /// left. The memory goes back after its last uses; if these are not complete, a thread of weir does it later. While
  /// other streams have buffers, the pool tries less and less often, down to every 65 536th time, for as long as it has
  /// to grow again after each time. With 0 an idle pool holds nothing. The default keeps everything. With any
  /// value but the default, each close takes the pool's lock.
  std::size_t release_threshold = std::numeric_limits<std::size_t>::max();
  /// How long an allocation waits, before it fails, for work that streams still do on closed memory, and for closed
  /// memory that other processes still use. It fails earlier when there is nothing to wait for: it does not wait for
  /// live buffers. With 0 it does not wait at all.
  std::chrono::nanoseconds patience = std::chrono::seconds{1};
  /// Whether buffers can be given to other processes. Upstream must be exportable, too. Exported memory is reused only
  /// when every importer is done with it or gone. A process that opens one buffer can reach the whole segment around it;
  /// in a paged pool, the pages that hold the buffer. A buffer in more than 250 pages cannot be given away.
  bool exportable = false;
  bool paged = true;  ///< where upstream can: take memory by pages, and move idle pages to where they are needed
};

/// What a pool has and what it has done, in bytes unless stated otherwise.
struct PoolStats {
  ResourceStats resource;         ///< the same as `stats()`
  std::size_t cached = 0;         ///< reserved, but in no buffer
  std::size_t largest_free = 0;   ///< largest range that is free for every stream; caches of streams are not counted
  std::size_t segments = 0;       ///< count of segments from upstream; in a paged pool, of pages
  std::size_t streams = 0;        ///< count of streams that have a cache
  std::uint64_t reuses = 0;       ///< count of allocations that the thread's own cache of the stream served
  std::uint64_t waits = 0;        ///< count of stream-side waits inserted for memory of other streams
  std::uint64_t grown = 0;        ///< count of times that the pool grew, by memory from upstream or by idle pages
  std::uint64_t given_back = 0;   ///< count of segments or pages that upstream got back
  std::uint64_t moved = 0;        ///< count of idle pages that were moved to other addresses
};

/// A resource that sub-allocates memory of another. Allocating memory that the same thread has closed on the same
/// stream costs no driver call, no malloc and no event. Memory goes back to the thread that allocated it, whichever
/// thread closes it. The ordering is that of every resource: memory is reused only after its recorded uses. The host
/// waits for these uses only in `trim`, and for up to `patience` in an allocation that would fail otherwise.
///
/// Sizes are rounded up to multiples of 256 bytes and, up to 1 MiB, to 16 steps per doubling. The pool lives until its
/// last buffer is closed, even when no handle is left.
///
/// Over memory that can be paged (CUDA, kind vmm) all buffers are in one range of addresses. Before
/// such a pool asks upstream for more memory, it takes memory that no buffer and no pending use has and moves it, page
/// by page, to addresses where the request fits. A buffer's address never changes, and fragmentation costs next to
/// nothing. Pages of a buffer that another process uses neither move nor go back. A program whose sizes hardly ever
/// repeat would have pages moved all the time; once half of them have moved, the pool takes new memory instead, an
/// eighth of what is in use each time, until it has half more than is in use.
///
/// `stats()` is exact while nobody allocates or closes. `peak_in_use` is exact if one thread allocates and closes all
/// buffers on one stream, no other stream uses them, and there is no release threshold. Otherwise it is an estimate,
/// which may be too low or too high: each thread's own peak on each stream counts closes of other kinds late, and the
/// sum over threads and streams is taken only when the pool looks beyond a cache.
class WEIR_API Pool : public MemoryResource {
 public:
  /// Return the counters as they are now.
  [[nodiscard]] virtual PoolStats pool_stats() const = 0;
  /// Set the most bytes that may be reserved from now on. Memory above the limit is not given back.
  virtual void set_limit(std::size_t bytes) noexcept = 0;
  /// Set `PoolOptions::reuse` from now on.
  virtual void set_reuse_policy(ReusePolicy policy) noexcept = 0;
  /// Set `PoolOptions::release_threshold` from now on. What is above it and free goes back at once.
  virtual void set_release_threshold(std::size_t bytes) noexcept = 0;
  /// Return everything that the pool has at this moment, as JSON (docs/resources.md): statistics, streams, and every
  /// range of memory. The call takes a moment, during which only warm allocations and closes proceed.
  [[nodiscard]] virtual std::string dump() const = 0;

 protected:
  using MemoryResource::MemoryResource;
};
/// Handle of a Pool.
using PoolPtr = std::shared_ptr<Pool>;

/// Make a pool over `upstream`. Throws invalid_argument for options that no pool can have, unsupported for an
/// exportable pool over memory that is not exportable, and OutOfMemory when the initial bytes cannot be allocated.
[[nodiscard]] WEIR_API PoolPtr make_pool(ResourcePtr upstream, const PoolOptions& options = {});
/// Make a pool over the plain resource of one of the device's kinds: a kind whose memory can be paged, if there is one
/// and `options.paged` is set, else the default kind. An exportable pool takes a kind that can be exported. If several
/// kinds qualify, the default kind is preferred, then the first of them in `Device::kinds()`.
[[nodiscard]] WEIR_API PoolPtr make_pool(const Device& device, const PoolOptions& options = {});

}  // namespace weir
