// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/points.hpp"

#include <algorithm>
#include <utility>

#include "weir/spi/stream_state.hpp"

namespace weir::spi {

void Points::add(StreamState& stream, std::uint64_t value, How how, std::size_t spare) {
  if (how == How::keep) stream.awaited(value);
  for (Entry& entry : entries_) {
    if (entry.stream != &stream) continue;
    entry.value = std::max(entry.value, value);
    return;
  }
  reserve(1 + spare);
  entries_.push_back({&stream, value, how});
  if (how == How::use) stream.retain_memory();
  if (how == How::keep) stream.keep();
}

std::vector<Point> Points::list() const {
  std::vector<Point> points;
  points.reserve(entries_.size() + 1);
  for (const Entry& entry : entries_) points.push_back({Kept(*entry.stream), entry.value});
  return points;
}

std::vector<Point> Points::list_unreached(const StreamState* follower) const {
  std::vector<Point> points;
  for (const Entry& entry : entries_) {
    if (entry.stream != follower && !entry.stream->known_reached(entry.value))
      points.push_back({Kept(*entry.stream), entry.value});
  }
  return points;
}

void Points::drop(const Entry& entry) noexcept {
  if (entry.how == How::use) entry.stream->release_memory();
  if (entry.how == How::keep && !entry.tag) entry.stream->unkeep();
}

void Points::clear() noexcept {
  while (!entries_.empty()) drop_last();
}

void Points::drop_last() noexcept {
  const Entry entry = entries_.back();
  entries_.pop_back();
  drop(entry);
}

void Points::keep() noexcept {
  for (Entry& entry : entries_) {
    if (entry.how == How::keep) continue;
    if (!entry.tag) entry.stream->keep();
    entry.stream->awaited(entry.value);
    if (std::exchange(entry.how, How::keep) == How::use) entry.stream->release_memory();
  }
}

bool Points::known_reached() const noexcept {
  return std::ranges::all_of(entries_, [](const Entry& entry) { return entry.stream->known_reached(entry.value); });
}

}  // namespace weir::spi
