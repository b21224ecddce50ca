// SPDX-License-Identifier: Apache-2.0
// Ranges of a paged segment, as other processes open them.
#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/forks.hpp"
#include "weir/spi/paged_segment.hpp"

namespace weir::spi {
namespace {

class PageRun final : public Segment {
 public:
  PageRun(const PagedSegment& of, std::vector<Ref<Segment>> pages, std::size_t bytes) noexcept
      : pages_(std::move(pages)) {
    device = of.device;
    kind = of.kind;
    size = bytes;
    device_accessible = of.device_accessible;
    exportable = of.exportable;
    dlpack_device = of.dlpack_device;
  }
  [[nodiscard]] std::span<const Ref<Segment>> parts() const noexcept override { return pages_; }

 private:
  const std::vector<Ref<Segment>> pages_;
};

// A process that a range goes to opens it once while the run is kept here.
constexpr std::size_t most_runs = 256;

}  // namespace

void PagedSegment::fork(ForkMoment moment) noexcept { detail::hold_across_fork(list_, moment); }

PagedSegment::Shared PagedSegment::share(std::size_t offset, std::size_t bytes) {
  Held held = hold(offset, bytes);
  const std::size_t begin = offset - held.offset;
  const std::size_t end = std::accumulate(held.pages.begin(), held.pages.end(), begin,
                                          [](std::size_t sum, const Ref<Segment>& page) { return sum + page->size; });
  Ref<Segment> dropped;  // ends without the lock
  if (held.pages.size() == 1) {
    Ref<Segment>& page = held.pages.front();
    const auto id = page->id();
    const std::scoped_lock lock(list_);
    places_.try_emplace(id.low, begin, end);
    return {std::move(page), held.offset};
  }
  std::unique_lock lock(list_);
  const auto find = [&] {
    return std::ranges::find_if(runs_, [&](const Run& run) { return run.begin == begin && run.end == end; });
  };
  if (const auto known = find(); known != runs_.end()) return {known->segment, held.offset};
  lock.unlock();
  auto made = Ref<Segment>::adopt(new PageRun(*this, std::move(held.pages), end - begin));
  const auto id = made->id();
  lock.lock();
  if (const auto known = find(); known != runs_.end()) {  // another thread's
    dropped = std::move(made);
    return {known->segment, held.offset};
  }
  runs_.reserve(most_runs);
  places_.try_emplace(id.low, begin, end);
  if (runs_.size() == most_runs) dropped = drop(runs_.begin());
  runs_.push_back({begin, end, made});
  return {std::move(made), held.offset};
}

Ref<Segment> PagedSegment::drop(std::vector<Run>::iterator run) noexcept {
  auto segment = std::move(run->segment);
  places_.erase(segment->id().low);
  runs_.erase(run);
  return segment;
}

void PagedSegment::forget_shared(std::size_t offset) noexcept {
  const auto has = [offset](std::size_t begin, std::size_t end) { return begin <= offset && offset < end; };
  for (;;) {
    Ref<Segment> dropped;  // ends without the lock
    const std::scoped_lock lock(list_);
    const auto known = std::ranges::find_if(runs_, [&](const Run& run) { return has(run.begin, run.end); });
    if (known != runs_.end()) {
      dropped = drop(known);
      continue;
    }
    std::erase_if(places_, [&](const auto& place) { return has(place.second.first, place.second.second); });
    return;
  }
}

std::optional<std::size_t> PagedSegment::find_shared(Segment& opened) noexcept {
  if (!opened.known_as(opened)) return std::nullopt;
  const auto id = opened.id();
  const std::scoped_lock lock(list_);
  const auto place = places_.find(id.low);
  return place == places_.end() ? std::nullopt : std::optional(place->second.first);
}

}  // namespace weir::spi
