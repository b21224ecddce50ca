// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a cuda::Allocator has beside each stream of the application: the timeline on which that stream's memory is
// allocated.

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "weir/spi/block.hpp"
#include "weir/stream.hpp"

namespace weir::cuda {

class GpuStream;

/// A stream of the application, by what never comes again: handles do.
struct StreamKey {
  CUcontext context;
  unsigned long long id;  ///< what cuStreamGetId says
  bool operator==(const StreamKey&) const = default;
};

/// The application may destroy its stream at any time, so the driver is asked about it only in calls that name it. For
/// streams of a device's primary context the lane is *direct*: its timeline means the stream itself, and knows how to
/// do without it (app_stream.hpp). A pair of calls on one stream then needs no event and no wait. Contexts of the
/// application may end, too, so their streams get a stream of weir's beside each. That one is ordered after the
/// application's stream, and the other way round, where memory changes hands.
class Lane {
 public:
  /// Make a lane that is direct if `theirs` is null; else `theirs` is the application's stream.
  Lane(StreamKey key, Stream own, const Stream* theirs);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();

  const StreamKey key;
  const Stream own;  ///< on which memory is allocated

  /// Calls and live allocations that hold the lane. While there are any, it stays.
  std::atomic<std::uint64_t> holders{0};
  bool used_lately = true;  ///< under the lock of its table

  /// Return the timeline that calls name while they use the lane; null when it is not direct.
  [[nodiscard]] const GpuStream* direct() const noexcept { return direct_; }

  // In a call that names the application's stream.

  /// Order the application's stream after what the resource put on `own`. Usually there is nothing new. With
  /// `spares_captures`, somebody may be capturing a stream.
  void take_over(bool spares_captures);
  /// Memory that was allocated here comes back: order its next use after the application's stream.
  void hand_back();
  /// The memory is with its resource again. Make a point for it if other streams are likely to want it, or if `always`.
  void handed_back(bool always) noexcept;
  /// Return whether the end of the lane needs no point any more, or could make it.
  [[nodiscard]] bool can_end() noexcept;
  /// Memory that was allocated elsewhere comes back: record a use by the application's stream so far.
  void used(spi::Block& block);

  /// Whatever comes back from now on may have been used by the application's stream.
  void touch() noexcept;

 private:
  [[nodiscard]] Stream app() const noexcept;

  GpuStream* direct_ = nullptr;
  spi::StreamState* app_ = nullptr;  // held as live memory does
  std::mutex mutex_;
  std::uint64_t covered_ = 0;  // the application's stream is ordered after everything on `own` up to this value
};

}  // namespace weir::cuda
