// SPDX-License-Identifier: Apache-2.0
#include "ipc/hold/runs.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "memory/adopted.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail::hold {

Runs::Runs(std::span<const std::shared_ptr<HeldMemory>> segments, SetLease lease, const Stream& stream, int holder)
    : segments_(segments),
      lease_(std::move(lease)),
      stream_(stream),
      holder_(holder),
      begins_{0},
      open_(segments.size()),
      runs_(segments.size()) {
  begins_.reserve(segments.size() + 1);
  for (const auto& segment : segments) {
    const std::uint64_t size = segment->size();
    if (size > std::numeric_limits<std::uint64_t>::max() - begins_.back()) violated("segments of more than 2^64 bytes");
    begins_.push_back(begins_.back() + size);
  }
}

Runs::~Runs() {
  for (const auto& segment : segments_) {
    if (!joined_.contains(segment.get())) segment->forget_joined();
  }
}

void Runs::connect(const Record& record) {
  if (record.size == 0) return;
  const std::size_t first = record.segment;
  if (first >= segments_.size())
    violated("segment " + std::to_string(first) + " of " + std::to_string(segments_.size()));
  const std::uint64_t begin = begins_[first];
  if (record.offset > size_of(first) || record.size > begins_.back() - begin - record.offset)
    violated(std::to_string(record.size) + " bytes at offset " + std::to_string(record.offset) + " of a segment of " +
             std::to_string(size_of(first)));
  const auto behind = std::ranges::upper_bound(begins_, begin + record.offset + record.size - 1);
  const auto last = static_cast<std::size_t>(behind - begins_.begin()) - 1;
  if (last == first) return;
  ++open_[first];
  --open_[last];
}

Buffer Runs::part(const Record& record) {
  if (record.size == 0) return adopt_nothing(stream_.state().device(), stream_);
  if (firsts_.empty()) find_runs();
  const std::size_t first = firsts_[record.segment];
  auto& run = runs_[first];
  if (!run) {
    const auto behind = std::upper_bound(firsts_.begin(), firsts_.end(), first);
    run = hold_buffer(map(first, static_cast<std::size_t>(behind - firsts_.begin()) - 1), stream_, lease_);
  }
  return run->slice(begins_[record.segment] - begins_[first] + record.offset, record.size);
}

void Runs::find_runs() {
  std::int64_t open = 0;
  for (std::size_t i = 0, first = 0; i < segments_.size(); ++i) {
    if (open == 0) first = i;
    firsts_.push_back(first);
    open += open_[i];
  }
}

spi::Ref<spi::Segment> Runs::map(std::size_t first, std::size_t last) {
  const bool alone = first == last;
  std::vector<spi::Segment*> parts;
  for (std::size_t i = first; i <= last; ++i) {
    const auto& memory = segments_[i]->open(stream_.state().device(), holder_, alone ? As::whole : As::part);
    if (memory->size != size_of(i))
      violated("a segment of " + std::to_string(memory->size) + " bytes, not " + std::to_string(size_of(i)));
    if (alone && !segments_[i]->is_part()) return memory;
    parts.push_back(memory.get());
  }
  joined_.insert(segments_[first].get());
  return segments_[first]->joined(parts);
}

}  // namespace weir::detail::hold
