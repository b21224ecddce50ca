// SPDX-License-Identifier: Apache-2.0
#include "replay/profile.hpp"

#include <algorithm>
#include <exception>

#include "replay/loop.hpp"
#include "replay/player.hpp"

namespace weir::replay {
namespace {

struct Sample {
  std::uint64_t live, reserved, segments;
};

void include(Band& band, std::uint64_t value, bool first) {
  band = first ? Band{value, value} : Band{std::min(band.low, value), std::max(band.high, value)};
}

void include(Column& column, const Sample& sample, bool first) {
  include(column.live, sample.live, first);
  include(column.reserved, sample.reserved, first);
  include(column.segments, sample.segments, first);
}

}  // namespace

Profile profile(const Trace& trace, const ResourcePtr& resource, std::size_t columns) {
  const std::size_t count = trace.operations.size();
  const std::size_t wide = std::min(columns, count);
  const Pool* const pool = find_pool(*resource);
  const MemoryResource& bottom = bottom_of(*resource);
  Profile out;
  out.has_segments = pool != nullptr;
  std::vector<Stream> streams;
  const auto several = std::clamp<std::size_t>(trace.streams, 1, Player::most_streams);
  for (std::size_t i = 0; i < several; ++i) streams.emplace_back(resource->device());
  std::vector<Buffer> buffers(trace.buffers);
  std::vector<std::uint64_t> ticks(count);
  Failures failures;
  const Stage stage{trace, *resource, streams, buffers, ticks, {}, failures};
  std::uint64_t live = 0;
  for (std::size_t c = 0; c < wide; ++c) {
    Column& column = out.columns.emplace_back();
    column.begin = count * c / wide;
    column.end = count * (c + 1) / wide;
    for (std::size_t i = column.begin; i < column.end; ++i) {
      const Operation& operation = trace.operations[i];
      const auto size = [&] {
        return operation.action == Action::trim ? 0 : buffers[operation.buffer].size();
      };
      live -= size();
      try {
        perform<SystemClock>(stage, i);
      } catch (const std::exception&) {
        ++out.failures;
      }
      live += size();
      const Sample sample{live, resource->stats().reserved,
                          pool ? pool->pool_stats().segments : bottom.stats().live_buffers};
      include(column, sample, i == column.begin);
    }
  }
  for (Buffer& buffer : buffers) buffer.close();
  for (const Stream& stream : streams) stream.synchronize();
  return out;
}

}  // namespace weir::replay
