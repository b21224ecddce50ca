// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plays a trace on a resource and takes the time of every operation.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "replay/trace.hpp"
#include "weir/buffer.hpp"
#include "weir/memory_resource.hpp"
#include "weir/pool.hpp"

namespace weir::replay {

/// One pass through the trace.
struct Pass {
  static constexpr std::uint64_t not_done = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> times;  ///< nanoseconds of each operation, less the stamps; or not_done
  std::uint64_t wall = 0;            ///< nanoseconds from the first operation to the last
  double stamp_cost = 0;             ///< nanoseconds that were subtracted from each time
  const char* clock = "";
  std::size_t failures = 0;
  std::vector<std::string> messages;     ///< of the first failures
  std::size_t peak_reserved = 0;         ///< of the uppermost resource, so far
  std::uint64_t driver_allocations = 0;  ///< segments that the plain resource asked the driver for
  std::uint64_t grown = 0, given_back = 0, waits = 0;  ///< of the pool
};

/// Return the first pool from above; null when there is none.
[[nodiscard]] const Pool* find_pool(const MemoryResource& resource);
/// Return the plain resource on which all others stand.
[[nodiscard]] const MemoryResource& bottom_of(const MemoryResource& resource);

class Player {
 public:
  /// At most this many threads and streams are made. Further ones of the trace are folded onto these.
  static constexpr std::size_t most_threads = 64;
  static constexpr std::size_t most_streams = 256;

  /// `trace` must live as long. With `threads`, each thread of the trace gets a thread of its own. Operations on one
  /// buffer by several threads keep their order, and waiting for that is not part of their time.
  Player(const Trace& trace, ResourcePtr resource, bool threads);

  /// Play the whole trace. Then close the buffers that are still open, and wait for the streams.
  [[nodiscard]] Pass play();

  [[nodiscard]] std::size_t threads() const noexcept { return threads_; }
  [[nodiscard]] std::size_t streams() const noexcept { return streams_.size(); }

 private:
  template <class Clock>
  Pass play_with();
  const Trace& trace_;
  ResourcePtr resource_;
  std::size_t threads_;
  std::vector<Stream> streams_;
  std::vector<Buffer> buffers_;
};

}  // namespace weir::replay
