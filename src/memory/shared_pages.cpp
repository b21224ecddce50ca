// SPDX-License-Identifier: Apache-2.0
// Ranges of a paged segment, as other processes open them.
#include <mutex>
#include <numeric>
#include <utility>

#include "base/forks.hpp"
#include "memory/shared_places.hpp"
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

}  // namespace

PagedSegment::PagedSegment() : shared_(std::make_unique<detail::SharedPlaces>()) {}
PagedSegment::~PagedSegment() = default;

void PagedSegment::fork(ForkMoment moment) noexcept { detail::hold_across_fork(list_, moment); }

PagedSegment::Shared PagedSegment::share(std::size_t offset, std::size_t bytes) {
  Held held = hold(offset, bytes);
  const std::size_t begin = offset - held.offset;
  const std::size_t end = std::accumulate(held.pages.begin(), held.pages.end(), begin,
                                          [](std::size_t sum, const Ref<Segment>& page) { return sum + page->size; });
  if (held.pages.size() == 1) {
    Ref<Segment>& page = held.pages.front();
    const auto id = page->id();
    const std::scoped_lock lock(list_);
    shared_->add_page(id.low, begin, end);
    return {std::move(page), held.offset};
  }
  Ref<Segment> ended;  // ends without the lock
  std::unique_lock lock(list_);
  if (auto known = shared_->find_run(begin, end)) return {std::move(known), held.offset};
  lock.unlock();
  auto made = Ref<Segment>::adopt(new PageRun(*this, std::move(held.pages), end - begin));
  const auto id = made->id();
  lock.lock();
  if (auto known = shared_->find_run(begin, end)) {  // another thread's
    ended = std::move(made);
    return {std::move(known), held.offset};
  }
  ended = shared_->add_run(id.low, begin, end, made);
  return {std::move(made), held.offset};
}

void PagedSegment::forget_shared(std::size_t offset) noexcept {
  for (Ref<Segment> run;;) {
    {
      const std::scoped_lock lock(list_);
      run = shared_->forget_run(offset);
      if (!run) return shared_->forget_page(offset);
    }
    run = {};  // ends without the lock
  }
}

std::optional<std::size_t> PagedSegment::find_shared(Segment& opened) noexcept {
  if (!opened.known_as(opened)) return std::nullopt;
  const auto id = opened.id();
  const std::scoped_lock lock(list_);
  return shared_->find(id.low);
}

}  // namespace weir::spi
