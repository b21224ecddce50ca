// SPDX-License-Identifier: Apache-2.0
#pragma once
// How bytes get from one memory to another: a pure function of what the stream can reach and what the host can reach.

#include <array>
#include <cstdint>
#include <span>

namespace weir::detail {

/// One end of a copy, seen from the stream that orders it.
struct CopyEnd {
  bool reached = false;  ///< the stream's device can copy from and to this memory itself
  bool host = false;     ///< the host can read and write it
};

enum class CopyPath : std::uint8_t {
  direct,     ///< one native copy on the stream
  elsewhere,  ///< one native copy on a helper stream of a device that reaches both ends
  host,       ///< one host function on the stream
  staged,     ///< through host-accessible staging memory
};

enum class CopyStep : std::uint8_t {
  copy,   ///< native, source → destination, on the stream
  read,   ///< native, source → staging memory of the source's device
  move,   ///< host function on the stream: (source or staging) → (destination or staging)
  write,  ///< native, staging memory of the destination's device → destination
};

/// The steps of a copy, in order. A native step runs on the stream itself if the stream reaches that end
/// (`*_on_stream`), else on a helper stream of the memory's own device, which is ordered by events.
struct CopyPlan {
  CopyPath path{};
  std::array<CopyStep, 3> steps{};
  std::uint8_t count = 0;
  bool read_on_stream = false;
  bool write_on_stream = false;

  [[nodiscard]] std::span<const CopyStep> view() const noexcept { return {steps.data(), count}; }
  friend bool operator==(const CopyPlan&, const CopyPlan&) = default;
};

/// `elsewhere` says that the device of one end reaches both ends, as it does by a view.
[[nodiscard]] CopyPlan plan_copy(CopyEnd source, CopyEnd destination, bool elsewhere = false) noexcept;

}  // namespace weir::detail
