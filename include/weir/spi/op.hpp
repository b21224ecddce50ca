// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations that a timeline carries out, in order. Its front half numbers them, and its back half gives them to
// the driver.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <variant>

#include "weir/spi/kept.hpp"
#include "weir/spi/ref.hpp"
#include "weir/spi/region.hpp"
#include "weir/spi/segment.hpp"

namespace weir::spi {

/// Copy `bytes` (> 0) between two places that this stream's backend can reach (StreamOps::reaches). Ranges of one
/// segment do not overlap.
struct CopyOp {
  /// Where the range begins that is written, and the one that is read.
  ///@{
  Location dst, src;
  ///@}
  std::size_t bytes;  ///< of each
};

/// Repeat a pattern of 1, 2, 4 or 8 bytes over `bytes` (> 0, a multiple of the pattern). Any offset.
struct FillOp {
  Location dst;                 ///< where the pattern begins
  std::size_t bytes;            ///< of the whole range
  std::uint64_t pattern;        ///< in the low pattern_bytes bytes, little-endian
  std::uint32_t pattern_bytes;  ///< 1, 2, 4 or 8
};

/// Store `value` in `word`, which is memory of the host, in one piece. Whoever sees the value, in any process, also
/// sees all bytes that earlier work wrote.
struct StoreOp {
  std::uint64_t* word;  ///< in memory for which DeviceState::reach_host returned true
  std::uint64_t value;  ///< what it holds afterwards
};

/// Run on a host thread; later work waits for it.
struct CallOp {
  std::function<void()> function;  ///< never empty
  bool repeatable = false;         ///< a full run after a partial one leaves what one run leaves
};

/// Order all later work after a point of another timeline.
struct WaitOp {
  Kept other;              ///< the timeline
  std::uint64_t value;     ///< the point on it
  bool for_space = false;  ///< later work only needs memory that the other's work used, and nothing that it wrote
};

/// Give a segment back in stream order (Segment::free_in_order). Owns the segment.
struct FreeOp {
  Ref<Segment> segment;  ///< the last owner
};

/// Move memory of a kind that can move (StreamOps::prefetches) to where it is used next. Changes no byte.
struct PrefetchOp {
  Location at;        ///< its beginning
  std::size_t bytes;  ///< of the range
  DeviceState* to;    ///< where the memory is used next
};

/// Do nothing but make a point that can be observed. With `looks`, the caller does not name the timeline: such a mark
/// is refused on a foreign timeline that nobody names.
struct MarkOp {
  bool looks = false;  ///< the caller does not name the timeline
};

/// Give a number to work that the backend puts on its native stream by means of its own.
struct NativeOp {
  /// Gets the number, and is called like the functions of the back half's first group. Without it, the work is on the
  /// native stream already.
  std::function<void(std::uint64_t value)> put = nullptr;
};

/// What StreamState::put puts on a timeline.
using Op = std::variant<CopyOp, FillOp, RegionOp, StoreOp, CallOp, WaitOp, FreeOp, PrefetchOp, MarkOp, NativeOp>;

}  // namespace weir::spi
