// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a set that arrived. A tensor may begin in one segment and go on in those that follow. Segments that are
// connected in this way are a *run*, and have addresses one behind the other. To map memory takes time for each of its
// bytes, so each segment is mapped once: with its run, and not alone.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <vector>

#include "ipc/hold/held_memory.hpp"
#include "ipc/hold/records.hpp"
#include "weir/buffer.hpp"
#include "weir/stream.hpp"

namespace weir::detail::hold {

class Runs {
 public:
  /// Throws corrupt_descriptor for descriptors of segments that could not be. `stream` and `segments` stay as they are
  /// for as long as this object. `holder` is the socket over which they came.
  Runs(std::span<const std::shared_ptr<HeldMemory>> segments, SetLease lease, const Stream& stream, int holder);
  Runs(const Runs&) = delete;
  Runs& operator=(const Runs&) = delete;
  /// Let go of the runs of earlier sets that are none of this one: they keep segments that have left the set.
  ~Runs();

  /// Connect the segments in which the tensor lies. Throws corrupt_descriptor if it lies outside of them.
  void connect(const Record& record);
  /// Return the memory of the tensor. All tensors were connected. Opens the run when its first tensor is asked for.
  [[nodiscard]] Buffer part(const Record& record);

 private:
  [[nodiscard]] std::size_t size_of(std::size_t segment) const noexcept {
    return begins_[segment + 1] - begins_[segment];
  }
  void find_runs();
  spi::Ref<spi::Segment> map(std::size_t first, std::size_t last);

  const std::span<const std::shared_ptr<HeldMemory>> segments_;
  const SetLease lease_;
  const Stream& stream_;
  const int holder_;
  std::vector<std::uint64_t> begins_;  // of each segment, if all lay one behind the other, and the end of the last
  std::vector<std::int64_t> open_;     // by segment: tensors that begin there and go on, less those that end there
  std::vector<std::size_t> firsts_;    // by segment: the first one of its run; empty before the first part()
  std::vector<std::optional<Buffer>> runs_;  // by first segment
  std::unordered_set<const HeldMemory*> joined_;  // the first ones of runs whose segments were joined
};

}  // namespace weir::detail::hold
