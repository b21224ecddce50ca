// SPDX-License-Identifier: Apache-2.0
#include "copy/checks.hpp"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "base/refuse.hpp"
#include "copy/overlap.hpp"
#include "memory/shared_places.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/paged_segment.hpp"

namespace weir::detail {
namespace {

std::string bytes_of(std::size_t bytes) { return std::to_string(bytes) + " bytes"; }

// A page that another process could open, and that this process has opened itself, is memory of the paged segment.
spi::Location in_pages(spi::Location opened, spi::Location other) {
  spi::PagedSegment* const pages = opened.segment->imported ? other.segment->paged() : nullptr;
  const auto begin = pages ? pages->find_shared(*opened.segment) : std::nullopt;
  return begin ? spi::Location{pages, *begin + opened.offset} : opened;
}

std::int64_t between(std::uint64_t x, std::uint64_t y) { return static_cast<std::int64_t>(y - x); }

// Return how far `b` is behind `a` if this process has opened both from one paged segment of its own, as different
// pages or sequences of pages. Only memory that can be joined has pages.
std::optional<std::int64_t> distance_in_pages(spi::Location a, spi::Location b) {
  const auto may_be_pages = [](const spi::Segment& opened) {
    return opened.imported && opened.known_as(opened) && opened.device->backend->segments->join;
  };
  std::optional<std::int64_t> found;
  if (!SharedPlaces::any() || !may_be_pages(*a.segment) || !may_be_pages(*b.segment)) return found;
  spi::ForkLink::for_each<spi::PagedSegment>([&](spi::PagedSegment& pages) {
    const auto first = pages.find_shared(*a.segment);
    const auto second = first ? pages.find_shared(*b.segment) : std::nullopt;
    if (second) found = between(*first + a.offset, *second + b.offset);
  });
  return found;
}

// Return how far `b` is behind `a` in the same memory, or nothing when they are known to be in different memory.
// Wrapped memory is recognized by its address or by the driver's name for it, memory from a descriptor by its segment's
// identity.
std::optional<std::int64_t> distance(spi::Location a, spi::Location b) {
  a = in_pages(a, b);
  b = in_pages(b, a);
  if (a.segment == b.segment) return between(a.offset, b.offset);
  if (!a.segment->imported && !b.segment->imported) return std::nullopt;
  const auto first = a.segment->names(), second = b.segment->names();
  if ((a.segment->device == b.segment->device && first.memory == second.memory) || a.segment->known_as(*b.segment)) {
    return between(first.offset + a.offset, second.offset + b.offset);
  }
  if (const auto found = distance_in_pages(a, b)) return found;
  if (a.segment->host && b.segment->host) {
    const auto address = [](spi::Location l) { return reinterpret_cast<std::uintptr_t>(l.segment->host) + l.offset; };
    return between(address(a), address(b));
  }
  const auto address = [](spi::Location at, const spi::DeviceState& device) {
    const spi::Segment* const named = at.segment->device == &device ? at.segment : at.segment->view_of(device);
    return named && named->address != 0 ? named->address + at.offset : 0;
  };
  for (const spi::DeviceState* device : {a.segment->device, b.segment->device}) {
    const auto x = address(a, *device), y = address(b, *device);
    if (x != 0 && y != 0) return between(x, y);
  }
  return std::nullopt;
}

}  // namespace

void refuse_closed(const char* operation) {
  throw Error(Errc::closed, std::string(operation) + ": the buffer is closed");
}

void check_range(const char* operation, const char* role, const Operand& operand, std::size_t offset,
                 std::size_t bytes) {
  if (offset <= operand.size && bytes <= operand.size - offset) return;
  refuse(operation, bytes_of(bytes) + " at offset " + std::to_string(offset) + " do not lie in the " + role + " of " +
                        bytes_of(operand.size));
}

void check_same_size(const char* operation, const Operand& dst, const Operand& src) {
  if (dst.size == src.size) return;
  refuse(operation, "the source has " + bytes_of(src.size) + ", the destination " + bytes_of(dst.size) +
                        "; they must be equal, or use the form with offsets and a size");
}

void check_writable(const char* operation, const Operand& dst) {
  if (dst.block->segment && dst.block->segment->read_only) {
    throw Error(Errc::permission_denied, std::string(operation) + ": the destination is read-only");
  }
}

std::size_t shared_bytes(const Place& a, const Place& b, std::size_t bytes) {
  const auto behind = distance({&a.segment(), a.offset}, {&b.segment(), b.offset});
  if (!behind) return 0;
  const auto apart = static_cast<std::uint64_t>(std::abs(*behind));
  return apart < bytes ? bytes - apart : 0;
}

void check_apart(const char* operation, const Place& a, const Place& b, std::size_t bytes) {
  if (const auto shared = shared_bytes(a, b, bytes))
    refuse(operation, "source and destination overlap by " + bytes_of(shared) + "; copy through a third buffer");
}

void check_apart(const char* operation, spi::Segment& dst, spi::Segment& src, const PlacedRegion& placed) {
  const auto behind = distance({&dst, 0}, {&src, 0});
  if (!behind) return;
  const auto overlap = overlap_of_sides(placed, *behind);
  if (overlap == Overlap::no) return;
  const char* const how =
      overlap == Overlap::yes ? "overlap" : "interleave too irregularly to say that they do not overlap";
  refuse(operation, std::string("source and destination ") + how + "; copy through a third tensor");
}

void check_pattern(std::size_t pattern_bytes) {
  if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8) {
    refuse("Buffer::fill", "a pattern of " + bytes_of(pattern_bytes) + "; it must have 1, 2, 4 or 8");
  }
}

void check_multiple(std::size_t bytes, std::size_t pattern_bytes) {
  if (bytes % pattern_bytes != 0) {
    refuse("Buffer::fill", bytes_of(bytes) + " are not a multiple of the pattern's " + bytes_of(pattern_bytes));
  }
}

}  // namespace weir::detail
