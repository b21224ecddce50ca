// SPDX-License-Identifier: Apache-2.0
// Everything that a pool has, as JSON.
#include <algorithm>
#include <ios>
#include <ostream>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "memory/lent.hpp"
#include "pool/pool_resource.hpp"
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

using Ranges = std::unordered_set<const Range*>;
struct Closed {  ///< ranges that are closed although their state does not say so
  Ranges cached, waiting;
  std::vector<const spi::Block*> leased;  ///< in the order of their addresses
};
using Waiting = std::unordered_map<const Shard*, std::size_t>;  // bytes that wait, by shard

const char* state_of(const Range& range, const Closed& closed) {
  switch (range.state) {
    case Range::State::bare: return "bare";
    case Range::State::away: return "waiting";
    case Range::State::free: return range.shard ? "free_on_stream" : "free";
    default: break;
  }
  if (closed.cached.contains(&range)) return "cached";
  if (closed.waiting.contains(&range)) return "waiting";
  return std::ranges::binary_search(closed.leased, static_cast<const spi::Block*>(&range)) ? "leased" : "live";
}

// Return the shard that has the range or had it last; null when there is none.
const Shard* home_of(const Range& range) {
  if (range.state == Range::State::bare) return nullptr;
  return range.state == Range::State::free ? range.shard : range.cache ? &range.cache->shard : nullptr;
}

void write(std::ostream& out, const PoolStats& stats) {
  const ResourceStats& all = stats.resource;
  out << "{\"in_use\":" << all.in_use << ",\"peak_in_use\":" << all.peak_in_use << ",\"reserved\":" << all.reserved
      << ",\"peak_reserved\":" << all.peak_reserved << ",\"live_buffers\":" << all.live_buffers
      << ",\"allocations\":" << all.allocations << ",\"cached\":" << stats.cached
      << ",\"largest_free\":" << stats.largest_free << ",\"segments\":" << stats.segments
      << ",\"streams\":" << stats.streams << ",\"reuses\":" << stats.reuses << ",\"waits\":" << stats.waits
      << ",\"grown\":" << stats.grown << ",\"given_back\":" << stats.given_back << ",\"moved\":" << stats.moved
      << ",\"leased\":" << all.leased << ",\"leased_buffers\":" << all.leased_buffers
      << ",\"leased_closed\":" << all.leased_closed << ",\"leased_closed_buffers\":" << all.leased_closed_buffers
      << '}';
}

void write(std::ostream& out, const std::vector<detail::LentTo>& borrowers) {
  Comma comma;
  for (const detail::LentTo& one : borrowers) {
    out << comma << "{\"process\":";
    one.process == 0 ? out << "null" : out << one.process;
    out << ",\"buffers\":" << one.buffers << ",\"bytes\":" << one.bytes << ",\"closed_buffers\":" << one.closed_buffers
        << ",\"closed_bytes\":" << one.closed_bytes << '}';
  }
}

void write(std::ostream& out, const Region& region, const Closed& closed) {
  const auto bytes = region.paged ? (region.end - region.begin) * granule : region.block->segment->size;
  out << "{\"address\":\"0x" << std::hex << region.address() + region.begin * granule << std::dec << "\",\"bytes\":" << bytes
      << ",\"paged\":" << (region.paged ? "true" : "false") << ",\"large\":" << (region.large ? "true" : "false")
      << ",\"ranges\":[";
  Comma comma;
  for (const Range* range = region.first; range; range = range->after) {
    out << comma << "{\"offset\":" << region.block->offset + range->begin() * granule << ",\"bytes\":" << range->bytes() << ",\"state\":\""
        << state_of(*range, closed) << '"';
    if (const auto* const shard = home_of(*range)) out << ",\"stream\":" << shard->stream.id();
    out << '}';
  }
  out << "]}";
}

void write(std::ostream& out, const Shard& shard, std::size_t waiting, Closed& closed) {
  std::size_t live = 0, in_use = 0, peak = 0, bytes = 0;
  std::uint64_t allocations = 0, reuses = 0;
  shard.for_each_cache([&](Cache& cache) {
    const std::scoped_lock guard(cache.lock);
    cache.keep_returned();
    cache.for_each([&](const Range& range) {
      bytes += range.bytes();
      closed.cached.insert(&range);
    });
    const Range* range = cache.waiting.latest();
    for (; range && range->state != Range::State::away; range = static_cast<const Range*>(range->next)) {
      waiting += range->bytes();
      closed.waiting.insert(range);
    }
    live += cache.live();
    in_use += cache.in_use();
    peak += cache.peak();
    allocations += cache.allocations();
    reuses += cache.hits();
  });
  out << "{\"stream\":" << shard.stream.id() << ",\"live_buffers\":" << live << ",\"in_use\":" << in_use
      << ",\"peak_in_use\":" << peak << ",\"allocations\":" << allocations << ",\"reuses\":" << reuses
      << ",\"cached\":" << bytes << ",\"waiting\":" << waiting << '}';
}

}  // namespace

std::string PoolResource::dump() const {
  std::ostringstream out;
  out << "{\"pool\":" << Quoted{name()} << ",\"device\":" << Quoted{device().state().describe()} << ",\"stats\":";
  write(out, pool_stats());
  detail::Lent lent = detail::lent_of(*this);
  const Lock lock(mutex_);
  out << ",\"limit\":" << limit_ << ",\"release_threshold\":" << release_threshold_ << ",\"leased_to\":[";
  write(out, lent.to);
  out << "],\"streams\":[";
  Comma between_streams, between_regions;
  Closed closed;
  closed.leased = std::move(lent.closed);
  Waiting waiting;
  for (const Region& region : arena_.regions) {
    for (const Range* range = region.first; range; range = range->after) {
      if (range->state == Range::State::away) waiting[home_of(*range)] += range->bytes();
    }
  }
  for (const Shard* shard = shards_; shard; shard = shard->next) {
    if (!shard->caches) continue;
    out << between_streams;
    write(out, *shard, waiting[shard], closed);
  }
  out << "],\"regions\":[";
  for (const Region& region : arena_.regions) {
    out << between_regions;
    write(out, region, closed);
  }
  out << "]}";
  return std::move(out).str();
}

}  // namespace weir::pool
