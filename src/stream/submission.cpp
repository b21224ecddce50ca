// SPDX-License-Identifier: Apache-2.0
// How work gets to the driver: numbers, turns, and work that is held back.
#include <optional>
#include <utility>

#include "base/atomic_max.hpp"
#include "base/reports_later.hpp"
#include "base/thrown_by.hpp"
#include "stream/releases.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {
namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

}  // namespace

// Each caller submits its own work, in the order in which the calls came. No thread submits the work of another, and a
// refusal by the driver is thrown to the caller that put the operation.
std::uint64_t StreamState::put(Op op) {
  // Everything that touches the other timeline happens before this one is locked, because two streams may wait for each
  // other's past.
  if (auto* wait = std::get_if<WaitOp>(&op)) {
    StreamState& other = *wait->other;
    if (&other == this || other.reached(wait->value)) return issued_.load(std::memory_order_acquire);
    other.throw_if_lost();
    const bool ours = other.device().backend == device_->backend;
    if (foreign() && ours && !other.wait_submitted(wait->value)) other.throw_if_lost();
    if (waits_natively(other) && other.submitted(wait->value)) other.ensure_marked(wait->value);
  }
  std::optional<detail::ReportsLater> later;  // than the turn: the user's sink may call this stream
  if (std::holds_alternative<FreeOp>(op)) later.emplace();
  Lock lock(mutex_);
  throw_if_lost();
  if (queue_.empty() && !must_hold(op)) {
    take_turn(lock);
    if (queue_.empty() && !must_hold(op) && !lost()) {
      if (sealed_ || (needs_somebody(op) && !may_look())) {
        end_turn(lock);
        throw Error(Errc::closed,
                    "stream " + std::to_string(id_) + " on " + device_->describe() + " has no handle any more");
      }
      const auto* const wait = std::get_if<WaitOp>(&op);
      if (!wait || may_wait_now(*wait)) {
        const auto value = issued_.load(std::memory_order_relaxed) + 1;
        issued_.store(value, std::memory_order_release);
        lock.unlock();
        const auto refused = detail::thrown_by([&] { submit(op, value); });
        lock.lock();
        detail::atomic_max(submitted_, value);
        end_turn(lock);
        if (refused) std::rethrow_exception(refused);
        return value;
      }
    }
    end_turn(lock);
    throw_if_lost();
  }
  // If its native stream was given out while work was held back, others may add to it as soon as this returns. Marks
  // and frees may come later, and whoever closes or looks does not wait.
  const bool waits = foreign() && !std::holds_alternative<MarkOp>(op) && !std::holds_alternative<FreeOp>(op);
  const auto value = hold(std::move(op));
  lock.unlock();
  if (waits) (void)wait_submitted(value);
  return value;
}

// Needs the lock.
std::uint64_t StreamState::hold(Op&& op) {
  start_worker();
  const auto value = issued_.load(std::memory_order_relaxed) + 1;
  queue_.push_back({std::move(op), value});
  issued_.store(value, std::memory_order_release);
  return value;
}

// Return whether `op` cannot go to the driver now, although nothing is queued before it.
bool StreamState::must_hold(const Op& op) const noexcept {
  if (std::holds_alternative<CallOp>(op)) return !calls_natively();
  if (const auto* wait = std::get_if<WaitOp>(&op)) {
    if (foreign() && wait->other->device().backend != device_->backend) return false;
    // The value must be marked, not just submitted: it may have been submitted after put() looked, and then nobody has
    // marked it. Or the native stream was given out after put() looked, and put() did not wait until the driver has the
    // point.
    return !waits_natively(*wait->other) || wait->other->marked_.load(std::memory_order_acquire) < wait->value;
  }
  return false;
}

void StreamState::submit(Op& op, std::uint64_t value) {
  std::visit(
      Overload{[&](CopyOp& copy) { do_copy(copy, value); }, [&](FillOp& fill) { do_fill(fill, value); },
               [&](RegionOp& copy) { do_copy_region(copy, value); }, [&](StoreOp& store) { do_store(store, value); },
               [&](CallOp& call) { do_call(call.function, value); }, [&](WaitOp& wait) { do_wait(wait, value); },
               [&](FreeOp& free) {
                 if (!free.segment->free_in_order(*this)) free_later(free, value);
               },
               [&](PrefetchOp& prefetch) { do_prefetch(prefetch, value); },
               [&](MarkOp&) { foreign() ? mark_up_to(value) : do_mark(value); },
               [&](NativeOp& native) {
                 if (native.put) native.put(value);
               }},
      op);
}

// For memory that cannot be freed in order, because the driver refuses or because the timeline is lost. It is freed
// when the work that the driver has is over.
void StreamState::free_later(FreeOp& op, std::uint64_t value) noexcept {
  detail::release_after(std::move(op.segment), *this, value);
}

// Return whether only the library wants `op`. For such an operation the library may not use an application's stream
// that nobody names any more.
bool StreamState::needs_somebody(const Op& op) noexcept {
  const auto* const mark = std::get_if<MarkOp>(&op);
  return std::holds_alternative<FreeOp>(op) || (mark && mark->looks);
}

// Threads get the turn in the order in which they ask for it.
void StreamState::take_turn(Lock& lock) {
  const auto mine = next_turn_++;
  changed_.wait(lock, [&] { return turn_ == mine && !forking_; });
  inside_ = true;
}

// Needs the turn; called without the lock.
void StreamState::mark_in_turn() { mark_up_to(submitted_.load(std::memory_order_relaxed)); }

void StreamState::mark_up_to(std::uint64_t value) {
  do_mark(value);
  do_flush();
  detail::atomic_max(marked_, value);
}

// Give up the turn, but make a mark first if another thread asked for one meanwhile. A loss is reported only after
// that, because the user's sink may call this stream.
void StreamState::end_turn(Lock& lock) noexcept {
  bool newly_lost = false;
  if (std::exchange(mark_wanted_, false) && !lost() && may_look()) {
    lock.unlock();
    const auto refused = detail::thrown_by([&] { mark_in_turn(); });
    newly_lost = refused && says_gone(refused) && become_lost(refused);
    lock.lock();
  }
  newly_lost = std::exchange(unreported_, false) || newly_lost;
  inside_ = false;
  ++turn_;
  changed_.notify_all();
  if (!newly_lost) return;
  lock.unlock();
  report_lost();
  lock.lock();
}

}  // namespace weir::spi
