// SPDX-License-Identifier: Apache-2.0
// How an allocation looks beyond its stream's caches: at other streams, at the ranges free for all, and at upstream.
#include <algorithm>
#include <utility>

#include "base/thrown_by.hpp"
#include "memory/lent.hpp"
#include "memory/lent_returns.hpp"
#include "pool/pool_resource.hpp"
#include "stream/release_queue.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::pool {
namespace {

using Search = RangeIndex::Search;
using Clock = sync::Clock;

// How much one slow allocation looks at: some ten microseconds' worth. A request for many pages looks at more ranges,
// because each range that it finds saves a page.
constexpr std::size_t a_few_streams = 16, a_few_ranges = 128, ranges_per_page = 2;

// What is looked at first. Mostly something fits among these, and each range that a cache gives up costs tens of
// nanoseconds.
constexpr std::size_t a_handful = 16;

// How many ranges that no stream uses any more are taken out of caches before a paged pool grows. A page is idle only
// once every closed range in it has been taken out, and a page that cannot move costs memory and a driver call. There
// are not many large ranges.
constexpr std::size_t large_ranges = 1024, small_ranges = 256, any_ranges = 384;

constexpr std::chrono::milliseconds a_moment{1}, some_moments{5};

// Return whether `stream` cannot be told to wait for `value` of `other` before the driver has it: nothing is held back
// for a stream on which others put work, so StreamState::put would block.
bool put_blocks(const spi::StreamState& stream, const spi::StreamState& other, std::uint64_t value) noexcept {
  const bool ours = other.device().backend == stream.device().backend;
  return stream.has_work_from_outside() && ours && !other.submitted(value);
}

}  // namespace

Range* PoolResource::allocate_slow(Cache& cache, const Wanted& wanted, Lock& lock, Shortage& shortage) {
  Shard& shard = cache.shard;
  note(cache);
  ++searches_;
  const auto released =
      detail::releases_done(upstream_->device().state());  // before anything is found to be too little
  Range* range = cut(shard, wanted, Search::quick);
  if (!range) range = look_and_cut(shard, wanted, lock);
  if (!range && reuse_ == ReusePolicy::wait_rather_than_grow) range = cut_waited_for(shard, wanted, a_few_streams, lock);
  const auto freed = arena_.freed;  // likewise
  if (!range) range = grow(shard, wanted, lock, shortage);
  if (!range) range = last_resort(shard, wanted, released, freed, lock, shortage);
  if (!range) return nullptr;
  range->shard = nullptr;
  range->cache = &cache;
  range->stream = &shard.stream;
  return range;
}

// Bring back the ranges that waited for another stream, if that stream has passed their points. While it has not, it is
// asked ever less often.
bool PoolResource::fetch_away(Shard& shard, Lock& lock) noexcept {
  constexpr std::size_t most = 256;
  constexpr std::uint32_t rarest = 32;
  if (!shard.awaits || --shard.until_asked != 0) return false;
  Shard* const awaited = shard.awaits;
  ++awaited->pins;
  lock.unlock();
  const bool some = awaited->stream.settle(most) != 0;
  lock.lock();
  shard.ask_again = some ? 1 : std::min(2 * shard.ask_again, rarest);
  shard.until_asked = shard.ask_again;
  unpin(*awaited, lock);
  return some;
}

// Let go of a shard that was pinned while others had the lock. It ends here if its stream was over meanwhile.
void PoolResource::unpin(Shard& shard, Lock& lock) noexcept {
  --shard.pins;
  if (!removable(shard)) return;
  take_out(shard);
  lock.unlock();
  dispose(&shard);
  lock.lock();
}

Range* PoolResource::cut(Shard& shard, const Wanted& wanted, Search search) {
  if (shard.has_pending()) {
    if (Range* const own = arena_.cut(*shard.pending, wanted.granules, wanted.alignment, search, wanted.large)) return own;
  }
  if (arena_.everyones.empty()) return nullptr;
  return arena_.cut(arena_.everyones, wanted.granules, wanted.alignment, search, wanted.large);
}

// Put the ranges that streams have cached into the indices, and search these: first ranges of the sort that is wanted
// (small or large), then all of them.
Range* PoolResource::look_and_cut(Shard& shard, const Wanted& wanted, Lock& lock) {
  const auto ranges = a_few_ranges + (pages_ ? ranges_per_page * wanted.granules / pages_->unit : 0);
  const auto first_large = class_below(arena_.largest_small);
  const Sort sort = wanted.large ? Sort{first_large, classes} : Sort{0, first_large + 1};
  const auto over = [&](std::size_t least) { return pages_ ? std::max(least, ranges) : ranges; };
  look(lock, &shard, sort, {a_few_streams, a_handful});
  if (Range* const range = cut(shard, wanted, Search::thorough)) return range;
  look(lock, &shard, sort, {a_few_streams, ranges, over(wanted.large ? large_ranges : small_ranges)});
  if (Range* const range = cut(shard, wanted, Search::thorough)) return range;
  look(lock, &shard, {}, {1, ranges, over(any_ranges)});
  return cut(shard, wanted, Search::thorough);
}

// Take a range that another stream used last, and make this stream wait for that use. Nobody can wait for a stream that
// is lost.
Range* PoolResource::cut_waited_for(Shard& shard, const Wanted& wanted, std::size_t streams, Lock& lock) {
  for (auto left = std::min(streams, asked_count_); left != 0 && asked_; --left) {
    Shard& other = *std::exchange(asked_, asked_->next_asked);
    if (&other == &shard || !other.has_pending() || other.stream.lost()) continue;
    Range* const range = arena_.cut(*other.pending, wanted.granules, wanted.alignment, Search::thorough, wanted.large);
    if (!range) continue;
    if (put_blocks(shard.stream, other.stream, range->closed_at())) {
      arena_.make_free(*range);
    } else if (put_wait(shard, other, *range, lock)) {
      return range;
    }
  }
  return nullptr;
}

// Make the stream of `shard` wait for the last use of a range that was cut from `other`. Return false, with the range
// back there, when nobody can wait for that use now: its stream is lost, or is captured by its application.
bool PoolResource::put_wait(Shard& shard, Shard& other, Range& range, Lock& lock) {
  const spi::Kept used_on = other.kept;
  const auto until = range.closed_at();
  ++other.pins;
  lock.unlock();
  const auto unmarked = detail::thrown_by([&] {
    if (used_on->submitted(until)) used_on->ensure_marked(until);
  });
  const auto refused =
      detail::thrown_by([&] { shard.stream.put(spi::WaitOp{.other = used_on, .value = until, .for_space = true}); });
  lock.lock();
  if (refused) {
    arena_.make_free(range);
    settle_place(other);
  }
  const bool by_other = unmarked || used_on->lost();
  unpin(other, lock);
  if (!refused) {
    ++waits_;
    return true;
  }
  if (by_other && !shard.stream.lost()) return false;
  std::rethrow_exception(refused);
}

// Try everything that could help at all. Repeat it while the host waits, for at most `patience`, for the work that
// streams still do with closed memory, of other resources, too, and for closed memory that other processes still use.
Range* PoolResource::last_resort(Shard& shard, const Wanted& wanted, std::uint64_t released, std::uint64_t freed,
                                 Lock& lock, Shortage& shortage) {
  const spi::DeviceState& below = upstream_->device().state();
  const auto deadline = Clock::now() + std::min<std::chrono::nanoseconds>(patience_, std::chrono::hours{24 * 365});
  const Wanted as_other{wanted.bytes, wanted.granules, wanted.alignment, !wanted.large};
  const auto try_all = [&]() -> Range* {
    const auto each = [&](auto function) {
      Range* const range = function(wanted);
      return !range && pages_ ? function(as_other) : range;
    };
    if (Range* const range = each([&](const Wanted& one) { return cut(shard, one, Search::thorough); })) return range;
    if (reuse_ == ReusePolicy::passed_only) return nullptr;
    return each([&](const Wanted& one) { return cut_waited_for(shard, one, asked_count_, lock); });
  };
  // Idle pages make room where they fit nowhere, and there may still be addresses for large requests.
  const auto grow_otherwise = [&] {
    Range* const range = grow(shard, wanted, lock, shortage, Use::all_idle);
    return !range && !wanted.large ? grow(shard, as_other, lock, shortage) : range;
  };
  if (is_exportable()) {
    lock.unlock();
    (void)detail::settle_lent();
    lock.lock();
  }
  for (bool first = true;; first = false) {
    const auto returns = detail::lent_returns();  // read before anything is looked at
    look_at_all(lock);
    if (Range* const range = try_all()) return range;
    const auto released_now = detail::releases_done(below);
    // Otherwise upstream has been asked, and nothing has changed.
    const bool changed = freed != arena_.freed || released != released_now;
    freed = arena_.freed;
    released = released_now;
    if (Range* const range = changed ? grow(shard, wanted, lock, shortage) : nullptr) return range;
    if (Range* const range = pages_ && (changed || first) ? grow_otherwise() : nullptr) return range;
    const auto left = deadline - Clock::now();
    if (left.count() <= 0) break;
    if (has_pending()) {
      wait_a_little(lock, std::min<std::chrono::nanoseconds>(left, a_moment));
    } else if (awaits_returns(lock)) {
      lock.unlock();
      detail::wait_for_return(returns, std::min(deadline, Clock::now() + some_moments));  // closes here ring no bell
      lock.lock();
    } else if (!await_release(wanted, released, std::min<std::chrono::nanoseconds>(left, a_moment), lock) &&
               detail::lent_returns() == returns) {
      break;
    }
  }
  fill(shortage);
  lock.unlock();
  detail::tell_of_lent(*this, shortage);
  lock.lock();
  return nullptr;
}

// Return whether memory that is closed here can still come back from other processes, or is about to.
bool PoolResource::awaits_returns(Lock& lock) const {
  if (!is_exportable() || !detail::may_wait_for_returns()) return false;
  lock.unlock();
  const bool awaits = detail::lent_of(*this).closed_buffers != 0 || detail::some_return();
  lock.lock();
  return awaits;
}

// Wait, no longer than `most`, for memory of the device that others have closed. Return false if there is none, or it
// would not help.
bool PoolResource::await_release(const Wanted& wanted, std::uint64_t released, std::chrono::nanoseconds most,
                                 Lock& lock) const {
  if (wanted.granules > (limit_ - std::min(limit_, arena_.bytes)) / granule) return false;
  lock.unlock();
  const bool awaits = detail::await_release(upstream_->device().state(), released, most);
  lock.lock();
  return awaits;
}

// Wait, no longer than `most`, for one of the streams that closed memory waits for.
void PoolResource::wait_a_little(Lock& lock, std::chrono::nanoseconds most) noexcept {
  spi::Kept stream;
  std::uint64_t value = 0;
  if (asked_) {
    const Shard& shard = *std::exchange(asked_, asked_->next_asked);
    stream = shard.kept;
    value = shard.has_pending() ? shard.pending->first().closed_at() : shard.last_awaited;
  }
  lock.unlock();
  auto status = WaitStatus::lost;
  if (stream) {
    (void)detail::thrown_by([&] { status = stream->wait_for(value, most); });
  }
  if (status != WaitStatus::timeout && (!stream || !stream->known_reached(value))) std::this_thread::sleep_for(most);
  lock.lock();
}

}  // namespace weir::pool
