// SPDX-License-Identifier: Apache-2.0
#pragma once
// A writer's side of a connection: which segments the holder has from the last commit, and the packets of the next one.
// Knows neither files nor clocks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ipc/hold/messages.hpp"
#include "weir/spi/segment.hpp"

namespace weir::detail::hold {

/// A packet of segments, and the places in the set's list of those whose files come beside it.
struct SegmentPacket {
  Packet bytes;
  std::vector<std::size_t> files;
};

class Writing {
 public:
  /// Make the packet that tells of the segments from `at` on, and move `at` behind those. Each segment is in the list
  /// once. `descriptor(i)` returns the bytes for the one at `i`, and is called for those that the holder does not have.
  template <class Descriptor>
  [[nodiscard]] SegmentPacket tell(const std::vector<spi::SegmentId>& segments, std::size_t& at,
                                   Descriptor descriptor) const {
    std::vector<std::uint32_t> entries;
    std::vector<WireBytes> made;
    SegmentPacket packet;
    for (; at < segments.size() && has_room(entries.size(), made.size()); ++at) {
      entries.push_back(place_of(segments[at]));
      if (entries.back() != Segments::fresh) continue;
      made.push_back(descriptor(at));
      packet.files.push_back(at);
    }
    const std::vector<Bytes> descriptors(made.begin(), made.end());
    packet.bytes = encode_segments(entries, descriptors);
    return packet;
  }
  /// Get the memory that committed() needs for so many.
  void make_room(std::size_t segments) { told_.reserve(segments); }
  /// The holder committed them. There is room for them.
  void committed(const std::vector<spi::SegmentId>& segments) noexcept {
    told_.clear();
    for (std::size_t i = 0; i < segments.size(); ++i) told_.emplace_back(segments[i], static_cast<std::uint32_t>(i));
    std::ranges::sort(told_, before);
  }
  /// The holder refused, removed the set, or is a new one: it has none of them.
  void forget() noexcept { told_.clear(); }

 private:
  using Told = std::pair<spi::SegmentId, std::uint32_t>;

  static bool before(const Told& a, const Told& b) noexcept {
    return std::pair(a.first.high, a.first.low) < std::pair(b.first.high, b.first.low);
  }
  [[nodiscard]] std::uint32_t place_of(spi::SegmentId id) const noexcept {
    const auto at = std::ranges::lower_bound(told_, Told{id, 0}, before);
    return at != told_.end() && at->first == id ? at->second : Segments::fresh;
  }

  std::vector<Told> told_;  // of the last commit, by id
};

}  // namespace weir::detail::hold
