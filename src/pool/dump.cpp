// SPDX-License-Identifier: Apache-2.0
// Everything that a pool has, as JSON.
#include <ios>
#include <ostream>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "pool/core.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::pool {
namespace {

struct Quoted {
  std::string_view text;
  friend std::ostream& operator<<(std::ostream& out, const Quoted& quoted) {
    constexpr char digits[] = "0123456789abcdef";
    out << '"';
    for (const char c : quoted.text) {
      if (c == '"' || c == '\\') out << '\\';
      const auto code = static_cast<unsigned char>(c);
      if (code >= ' ') {
        out << c;
      } else {
        out << "\\u00" << digits[code / 16] << digits[code % 16];
      }
    }
    return out << '"';
  }
};

// Separates the elements of a list.
class Comma {
 public:
  friend std::ostream& operator<<(std::ostream& out, Comma& comma) {
    return out << (std::exchange(comma.first_, false) ? "" : ",");
  }

 private:
  bool first_ = true;
};

using InCare = std::unordered_map<const Range*, const char*>;  // of streams, closed

const char* state_of(const Range& range, const InCare& in_care) {
  if (range.state == Range::State::bare) return "bare";
  if (range.state == Range::State::free) return range.shard ? "free_on_stream" : "free";
  const auto closed = in_care.find(&range);
  return closed == in_care.end() ? "live" : closed->second;
}

void write(std::ostream& out, const PoolStats& stats) {
  const ResourceStats& all = stats.resource;
  out << "{\"in_use\":" << all.in_use << ",\"peak_in_use\":" << all.peak_in_use << ",\"reserved\":" << all.reserved
      << ",\"peak_reserved\":" << all.peak_reserved << ",\"live_buffers\":" << all.live_buffers
      << ",\"allocations\":" << all.allocations << ",\"cached\":" << stats.cached
      << ",\"largest_free\":" << stats.largest_free << ",\"segments\":" << stats.segments
      << ",\"streams\":" << stats.streams << ",\"reuses\":" << stats.reuses << ",\"waits\":" << stats.waits
      << ",\"grown\":" << stats.grown << ",\"given_back\":" << stats.given_back << ",\"moved\":" << stats.moved << '}';
}

void write(std::ostream& out, const Region& region, const InCare& in_care) {
  const auto bytes = region.paged ? (region.end - region.begin) * granule : region.block->segment->size;
  out << "{\"address\":\"0x" << std::hex << region.address() + region.begin * granule << std::dec << "\",\"bytes\":" << bytes
      << ",\"paged\":" << (region.paged ? "true" : "false") << ",\"large\":" << (region.large ? "true" : "false")
      << ",\"ranges\":[";
  Comma comma;
  for (const Range* range = region.first; range; range = range->after) {
    out << comma << "{\"offset\":" << range->offset << ",\"bytes\":" << range->bytes() << ",\"state\":\""
        << state_of(*range, in_care) << '"';
    if (range->shard) out << ",\"stream\":" << range->shard->stream.id();
    out << '}';
  }
  out << "]}";
}

void write(std::ostream& out, Shard& shard, InCare& in_care) {
  const std::scoped_lock guard(shard.lock);
  std::size_t cached = 0, waiting = 0;
  shard.for_each_cached([&](const Range& range) {
    cached += range.bytes();
    in_care[&range] = "cached";
  });
  for (auto* range = shard.first_waiting; range; range = static_cast<Range*>(range->next)) {
    waiting += range->bytes();
    in_care[range] = "waiting";
  }
  out << "{\"stream\":" << shard.stream.id() << ",\"live_buffers\":" << shard.live() << ",\"in_use\":" << shard.in_use
      << ",\"peak_in_use\":" << shard.peak << ",\"allocations\":" << shard.allocations << ",\"reuses\":" << shard.hits()
      << ",\"cached\":" << cached << ",\"waiting\":" << waiting << '}';
}

}  // namespace

std::string Core::dump() const {
  std::ostringstream out;
  out << "{\"pool\":" << Quoted{name()} << ",\"device\":" << Quoted{device().state().describe()} << ",\"stats\":";
  write(out, pool_stats());
  const Lock lock(mutex_);
  out << ",\"limit\":" << limit_ << ",\"release_threshold\":" << release_threshold_ << ",\"streams\":[";
  Comma between_streams, between_regions;
  InCare in_care;
  for (auto* range = left_; range; range = static_cast<Range*>(range->next)) in_care[range] = "waiting";
  for (Shard* shard = shards_; shard; shard = shard->next) {
    out << between_streams;
    write(out, *shard, in_care);
  }
  out << "],\"regions\":[";
  for (const Region& region : arena_.regions) {
    out << between_regions;
    write(out, region, in_care);
  }
  out << "]}";
  return std::move(out).str();
}

}  // namespace weir::pool
