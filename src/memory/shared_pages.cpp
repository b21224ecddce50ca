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
  if (held.pages.size() == 1) return {std::move(held.pages.front()), held.offset};
  const std::size_t begin = offset - held.offset;
  const std::size_t end = std::accumulate(held.pages.begin(), held.pages.end(), begin,
                                          [](std::size_t sum, const Ref<Segment>& page) { return sum + page->size; });
  Ref<Segment> dropped;  // ends without the lock
  const std::scoped_lock lock(list_);
  const auto known = std::ranges::find_if(runs_, [&](const Run& run) { return run.begin == begin && run.end == end; });
  if (known != runs_.end()) return {known->segment, held.offset};
  auto made = Ref<Segment>::adopt(new PageRun(*this, std::move(held.pages), end - begin));
  if (runs_.size() == most_runs) {
    dropped = std::move(runs_.front().segment);
    runs_.erase(runs_.begin());
  }
  runs_.push_back({begin, end, made});
  return {std::move(made), held.offset};
}

void PagedSegment::forget_shared(std::size_t offset) noexcept {
  for (;;) {
    Ref<Segment> dropped;  // ends without the lock
    const std::scoped_lock lock(list_);
    const auto known =
        std::ranges::find_if(runs_, [&](const Run& run) { return run.begin <= offset && offset < run.end; });
    if (known == runs_.end()) return;
    dropped = std::move(known->segment);
    runs_.erase(known);
  }
}

}  // namespace weir::spi
