// SPDX-License-Identifier: Apache-2.0
// How a paged pool grows: it moves idle memory to where it is needed before it makes new memory. It asks the driver
// without the lock, and in one thread at a time.
#include <algorithm>
#include <exception>
#include <numeric>
#include <tuple>
#include <utility>

#include "pool/pool_resource.hpp"
#include "stream/release_queue.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::pool {
namespace {

using Page = PageTable::Page;

// Pages of new memory. A driver needs some 40 microseconds for a page whatever its size, and only a page that is idle
// as a whole can move. So a request gets few pages: at least `least_per_request` and at most `most_per_request`.
// Within these bounds, a page has at most 1/`most_pages` of what the pool has together with the request.
constexpr std::uint64_t least_per_request = 8, most_per_request = 64, most_pages = 512;

// In a pool that other processes open, each page is a file of theirs and a call of their driver, so a request gets very
// few.
constexpr std::uint64_t most_per_lent_request = 4;

// Pages that move for one request. Beyond these, an idle page does not move if a new page would have the memory of
// `worth_it` or more such pages. It is given back instead, which is half the work of moving it, and the next time there
// are fewer pages.
constexpr std::size_t most_moved = 24;
constexpr std::uint64_t worth_it = 4;

// Idle pages that are looked at to find the largest, unless more are needed: there may be a great many.
constexpr std::size_t looked_at = 512;

std::uint64_t page_size(std::uint64_t request, std::uint64_t pool, std::uint64_t unit) noexcept {
  const auto wanted = std::min(request / least_per_request, (pool + request) / most_pages);
  return round_up(std::max({wanted, request / most_per_request, unit}), unit);
}

std::uint64_t lent_page_size(std::uint64_t request, std::uint64_t wanted, std::uint64_t unit) noexcept {
  return round_up(std::max({request / most_per_lent_request, std::min(request, wanted), unit}), unit);
}

// Return on how many sides of the range there is no memory.
int open_sides(const Range& range) noexcept {
  const auto has_none = [](const Range* one) { return !one || one->state == Range::State::bare; };
  return has_none(range.before) + has_none(range.after);
}

}  // namespace

// Return pages of memory that is free for every stream, the largest first. They have at least `wanted` granules and are
// at least `among` in number, if there are that many. Of equal pages, those come first that make no new hole, because
// there is no memory beside their range, and then those of smaller ranges, so that large ranges stay whole.
std::vector<PoolResource::Idle> PoolResource::idle_pages(std::uint64_t wanted, std::size_t among) const {
  std::vector<Idle> idle;
  std::uint64_t found = 0;
  const auto goes_on = [&] { return found < wanted || idle.size() < among; };
  arena_.everyones.from_largest(pages_->unit, [&](Range& range) {
    pages_->inside(range.begin(), range.end(), [&](const Page& page) {
      idle.push_back({&range, page});
      found += page.granules;
      return goes_on();
    });
    return goes_on();
  });
  std::ranges::stable_sort(idle, std::greater{}, [](const Idle& each) {
    return std::tuple(each.page.granules, open_sides(*each.range), ~each.range->granules);
  });
  return idle;
}

// Cut these pages out of the free ranges, so that nothing else finds them. The result is in their order. Throws only
// for want of memory, and then has done nothing.
std::vector<Range*> PoolResource::lift(const std::vector<Idle>& pages) {
  std::vector<Range*> lifted(pages.size());
  std::vector<std::size_t> order(pages.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return pages[i].page.begin; });
  arena_.make_spare(2 * pages.size());
  for (std::size_t i = 0; i < order.size();) {
    Range* rest = pages[order[i]].range;
    for (const Range* const range = rest; i < order.size() && pages[order[i]].range == range; ++i) {
      const Page& page = pages[order[i]].page;
      lifted[order[i]] = &arena_.lift(*rest, page.begin, page.granules, rest);
    }
  }
  return lifted;
}

// Decide which idle pages move where, how much new memory the bare parts need besides, and which idle pages are given
// back to make up for it. Before a request fails, these are also pages that are too large for every gap, the smallest
// first.
PoolResource::Plan PoolResource::plan(const Arena::Opening& opening, Use use) const {
  Plan plan;
  std::vector<Page> gaps;
  std::vector<Idle> left;
  for (const auto& [range, bare] : opening.parts) {
    if (bare) gaps.push_back({range->begin(), range->granules});
  }
  std::uint64_t missing = 0;
  for (const Page& gap : gaps) missing += gap.granules;
  const auto most = is_exportable() ? lent_page_size(missing, lent_page(), pages_->unit)
                                    : page_size(missing, arena_.bytes / granule, pages_->unit);
  const auto give_back = [&](const Idle& idle) {
    plan.granules_given_back += idle.page.granules;
    plan.idle.push_back(idle);
  };
  const bool looks = missing != 0 && use != Use::new_only;
  for (const Idle& idle : looks ? idle_pages(missing, looked_at) : std::vector<Idle>()) {
    if (plan.to.size() >= most_moved && idle.page.granules * worth_it <= most) {
      plan.granules_given_back + idle.page.granules <= missing ? give_back(idle) : left.push_back(idle);
      continue;
    }
    const auto gap = std::ranges::find_if(gaps, [&](const Page& g) { return g.granules >= idle.page.granules; });
    if (gap == gaps.end()) {
      left.push_back(idle);
      continue;
    }
    plan.idle.push_back(idle);
    plan.to.push_back(gap->begin);
    gap->begin += idle.page.granules;
    gap->granules -= idle.page.granules;
    missing -= idle.page.granules;
    if (missing == 0) return plan;
  }
  plan.granules_added = missing;
  for (; use == Use::all_idle && !left.empty() && plan.granules_given_back < missing; left.pop_back()) {
    give_back(left.back());
  }
  for (Page& gap : gaps) {
    while (gap.granules != 0) {
      plan.added.push_back({gap.begin, std::min(most, gap.granules)});
      gap.begin += plan.added.back().granules;
      gap.granules -= plan.added.back().granules;
    }
  }
  return plan;
}

// Carry out a plan. Return false when there is no memory; the opening then has none of the plan's memory. Count in
// `done` the idle pages that are no longer where they were.
bool PoolResource::carry_out(const Plan& plan, std::size_t& done, Shortage& shortage) {
  std::size_t added = 0;
  // When there is no memory, free what others on the device have closed, and try again.
  const auto add = [&](const Page& page) {
    while (!pages_->add(page.begin, page.granules, shortage)) {
      if (!detail::settle_releases(upstream_->device().state())) return false;
    }
    return true;
  };
  const auto undo = [&] {
    for (std::size_t i = 0; i < std::min(done, plan.to.size()); ++i) {
      pages_->end({plan.to[i], plan.idle[i].page.granules});
    }
    for (std::size_t i = 0; i < added; ++i) pages_->end(plan.added[i]);
  };
  try {
    for (; done < plan.to.size(); ++done) pages_->move(plan.idle[done].page, plan.to[done]);
    for (; done < plan.idle.size(); ++done) pages_->end(plan.idle[done].page);
    for (; added < plan.added.size(); ++added) {
      if (add(plan.added[added])) continue;
      undo();
      return false;
    }
  } catch (...) {
    undo();
    throw;
  }
  return true;
}

// Make a range bare whose memory has moved elsewhere or is gone.
void PoolResource::strip(Range& range) noexcept {
  if (!range.region->large) small_ -= range.granules;
  arena_.strip(range);
}

bool PoolResource::add_pages(std::uint64_t granules, bool large, Lock& lock, Shortage& shortage, Use use) {
  const Growing growing(*this, lock);
  const auto opening = arena_.open(arena_.addresses(large), granules, pages_->unit);
  if (!opening) return false;
  Plan wanted;
  std::vector<Range*> lifted;
  try {
    wanted = plan(*opening, use);
    lifted = lift(wanted.idle);
  } catch (...) {
    arena_.close(*opening, false);
    throw;
  }
  std::uint64_t bare = 0;
  for (const auto& part : opening->parts) bare += part.bare ? part.range->granules : 0;
  const auto added = static_cast<std::size_t>(wanted.granules_added) * granule;
  const auto given_back = static_cast<std::size_t>(wanted.granules_given_back) * granule;
  std::size_t lost = 0, done = 0;
  bool backed = false;
  std::exception_ptr refused;
  if (added <= given_back + limit_ - std::min(limit_, arena_.bytes)) {
    lock.unlock();
    try {
      backed = carry_out(wanted, done, shortage);
    } catch (...) {
      refused = std::current_exception();
    }
    lock.lock();
  } else {
    shortage.limit = limit_;
  }
  const auto freed = arena_.freed;
  for (std::size_t i = 0; i < lifted.size(); ++i) {
    if (i < done) lost += lifted[i]->bytes();
    i < done ? strip(*lifted[i]) : arena_.make_free(*lifted[i]);
  }
  arena_.bytes = backed ? arena_.bytes + added - given_back : arena_.bytes - lost;
  const auto moved = std::min(done, wanted.to.size());
  page_count_ = page_count_ + (backed ? wanted.added.size() + moved : 0) - done;
  given_back_ += backed ? done - moved : done;
  arena_.close(*opening, backed);
  if (!backed) arena_.freed = freed;  // what is free now was so before
  if (refused) std::rethrow_exception(refused);
  if (!backed) return false;
  if (!large) small_ += bare;
  ++grows_;
  pace_.grew();
  moved_ += moved;
  if (moved != 0) restlessness_.moved(moved, page_count_, searches_);
  peak_reserved_ = std::max(peak_reserved_, arena_.bytes);
  shortage = {};
  return true;
}

// Move nothing, if the pool has moved much of late.
bool PoolResource::add_new_pages(std::uint64_t granules, bool large, Lock& lock, Shortage& shortage) {
  const auto held = arena_.bytes / granule;
  if (!restlessness_.wants_more(granules, held, noted_in_use_ / granule)) return false;
  if (!add_pages(granules, large, lock, shortage, Use::new_only)) {
    restlessness_.failed();
    return false;
  }
  restlessness_.grew(arena_.bytes / granule - held);
  return true;
}

// Give an eighth to small requests, if that is at least a page.
bool PoolResource::add_first_pages(std::uint64_t granules, Lock& lock, Shortage& shortage) {
  const auto small = granules / 8 / pages_->unit * pages_->unit;
  return (small == 0 || add_pages(small, false, lock, shortage, Use::new_only)) &&
         add_pages(granules - small, true, lock, shortage, Use::new_only);
}

// Give free memory back until at most `bytes_to_keep` bytes are in no buffer.
void PoolResource::end_pages(std::size_t bytes_to_keep, Lock& lock) {
  if (upstream_->device().state().inherited) return;  // the pages belong to the parent's driver
  if (growing_ && Growing::some()) return;  // two pools that grow would wait for each other; the next close tries again
  while (growing_) grown_.wait(lock);
  const Growing growing(*this, lock);
  const auto used = in_use();
  auto too_many = arena_.bytes - std::min(arena_.bytes, used);
  too_many -= std::min(too_many, bytes_to_keep);
  auto idle = idle_pages(~std::uint64_t{0}, 0);
  std::erase_if(idle, [&](const Idle& each) {
    const auto bytes = static_cast<std::size_t>(each.page.granules) * granule;
    if (bytes > too_many) return true;
    too_many -= bytes;
    return false;
  });
  const auto lifted = lift(idle);
  lock.unlock();
  for (const Idle& each : idle) pages_->end(each.page);
  lock.lock();
  for (Range* range : lifted) {
    arena_.bytes -= range->bytes();
    strip(*range);
  }
  given_back_ += lifted.size();
  page_count_ -= lifted.size();
}

}  // namespace weir::pool
