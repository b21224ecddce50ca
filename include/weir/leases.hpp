// SPDX-License-Identifier: Apache-2.0
#pragma once
// Who uses memory that went to other processes, and when it comes back. How it goes there: ipc.hpp, channel.hpp,
// server.hpp and held_set.hpp. RingProducer::stats() counts the slots of a ring, which are not counted here. The sums
// are in ResourceStats.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir::ipc {

/// What one process uses of a resource's memory. Buffers count with all their bytes.
struct LeasedTo {
  /// The process id of a channel's peer, which is the kernel's. 0 stands for all those whose id is not known: processes
  /// that have a one-shot descriptor or a held set, that this process cannot see, or whose channel does not say.
  std::int32_t process = 0;
  std::size_t buffers = 0;         ///< count
  std::size_t bytes = 0;           ///< of these buffers
  std::size_t closed_buffers = 0;  ///< count of those that have no owner in this process any more
  std::size_t closed_bytes = 0;    ///< of these
};

/// Return which processes use memory of `resource` at this moment, the one with the most bytes first. Memory counts
/// that came through `resource` itself or through resources that stand on it. What several processes use counts for
/// each of them, so ResourceStats::leased may be less than the sum.
[[nodiscard]] WEIR_API std::vector<LeasedTo> leased_to(const MemoryResource& resource);

/// Wait until other processes use at most `most_bytes` of the resource's memory. Return true then, and false when
/// `timeout` has passed. A negative `timeout` is no limit, and 0 looks without waiting. Work of this process's streams
/// may still be pending on memory that came back. The memory is not kept for the caller: another allocation may take it
/// first. Throws invalid_argument on the threads of weir on which memory comes back, because they cannot wait for it.
[[nodiscard]] WEIR_API bool wait_for_returns(const MemoryResource& resource, std::size_t most_bytes = 0,
                                             std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});

}  // namespace weir::ipc
