// SPDX-License-Identifier: Apache-2.0
// The waiters of a timeline, in the order of their points. The cost of a look depends on how many of them have passed.
#include <algorithm>
#include <mutex>
#include <utility>

#include "base/atomic_max.hpp"
#include "base/forks.hpp"
#include "stream/watcher.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {
namespace {

struct Calling;
/// The flag of this thread: whether it is calling waiters that have passed.
bool& calling() noexcept { return sync::flag_of_thread<Calling>(); }

}  // namespace

void keep(StreamState& timeline) noexcept { timeline.keep(); }
void unkeep(StreamState& timeline) noexcept { timeline.unkeep(); }

void StreamState::awaited(std::uint64_t value) noexcept { detail::atomic_max(awaited_, value); }

bool StreamState::after(std::uint64_t value, Waiter& waiter, Waiter::Passed passed, bool watched,
                        const sync::Atomic<bool>* or_if) noexcept {
  if (known_reached(value)) return false;
  waiter.passed_ = passed;
  waiter.value_ = value;
  Kept to_watch;
  {
    const std::scoped_lock lock(waiting_mutex_);
    if (or_if) watched = watched || or_if->load(std::memory_order_acquire);
    if (waiting_.empty()) keep();
    waiter.stands_ = true;
    waiting_.insert(waiter);  // once the lock is free, the waiter may be gone at any moment
    if (watched) {
      if (watched_to_ == 0) to_watch = Kept(*this);
      watched_to_ = std::max<std::uint64_t>(watched_to_, value);
    }
  }
  if (to_watch) detail::Watcher::get().watch(std::move(to_watch));
  return true;
}

void StreamState::watch() noexcept {
  {
    const std::scoped_lock lock(waiting_mutex_);
    if (waiting_.empty()) return;
    if (std::exchange(watched_to_, std::max<std::uint64_t>(watched_to_, waiting_.last_value())) != 0) return;
    keep();
  }
  detail::Watcher::get().watch(Kept::adopt(this));
}

// Move up to `most` waiters that have passed to `hand`. If the queue is empty then, `of_queue` takes over the count
// with which the queue kept the timeline.
void StreamState::take_passed(std::uint64_t first, std::size_t most, InHand& hand, Kept& of_queue) noexcept {
  const std::scoped_lock lock(waiting_mutex_);
  const auto last = std::max(first, reached_.load(std::memory_order_acquire));
  while (most-- != 0 && !waiting_.empty() && waiting_.first_value() <= last) {
    Waiter& passed = waiting_.take_first();
    passed.stands_ = false;
    hand.add(passed);
  }
  if (!hand.first_) return;
  called_.fetch_add(1, std::memory_order_relaxed);
  if (waiting_.empty()) of_queue = Kept::adopt(this);
}

// The same for the waiters that give up. Nobody will know when any value in the queue has passed.
void StreamState::take_giving_up(InHand& hand, Kept& of_queue) noexcept {
  const std::scoped_lock lock(waiting_mutex_);
  waiting_.take_giving_up([&](Waiter& one) {
    one.stands_ = false;
    hand.add(one);
  });
  if (!hand.first_) return;
  called_.fetch_add(1, std::memory_order_relaxed);
  if (waiting_.empty()) of_queue = Kept::adopt(this);
}

std::size_t StreamState::settle(std::size_t most, bool watched_only) noexcept {
  const Kept self(*this);
  std::size_t called = 0;
  while (called < most) {
    std::uint64_t first = 0;
    {
      const std::scoped_lock lock(waiting_mutex_);
      if (waiting_.empty()) break;
      first = waiting_.first_value();
      if (watched_only && first > watched_to_) break;
    }
    const bool over = finished(first);
    if (!over && !never_known(first)) break;
    Kept of_queue;
    InHand hand;
    over ? take_passed(first, most - called, hand, of_queue) : take_giving_up(hand, of_queue);
    if (!hand.first_ && !over) break;
    if (!hand.first_) continue;
    const auto process = detail::fork_generation;
    const bool before = std::exchange(calling(), true);
    while (hand.first_) {
      Waiter& passed = hand.take();
      passed.passed_(passed, hand);
    }
    called += hand.taken_;
    calling() = before;
    // Else a failure was reported meanwhile, its sink called fork(), and this is the child, which counts anew.
    if (process == detail::fork_generation) called_.fetch_sub(1, std::memory_order_release);
  }
  if (calling()) return called;
  for (unsigned round = 0; called_.load(std::memory_order_acquire) != 0; ++round) sync::pause(round);
  return called;
}

}  // namespace weir::spi
