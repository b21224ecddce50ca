// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/stream_state.hpp"

#include <algorithm>
#include <utility>

#include "base/atomic_max.hpp"
#include "base/library_thread.hpp"
#include "base/thrown_by.hpp"
#include "stream/releases.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"

namespace weir::spi {
namespace {

std::uint64_t next_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::string message_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "unknown exception";
  }
}

// The one of `error`, as far as it means that a timeline has ended: a peer that died keeps its name.
Errc condition_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code() == Errc::peer_gone ? Errc::peer_gone : Errc::device_lost;
  } catch (...) {
    return Errc::device_lost;
  }
}

Error lost_error(const DeviceState& device, std::uint64_t id, const std::exception_ptr& why) {
  return {condition_of(why),
          "stream " + std::to_string(id) + " on " + device.describe() + " is lost: " + message_of(why)};
}

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

}  // namespace

void ref_retain(StreamState* object) noexcept { object->retain(); }
void ref_release(StreamState* object) noexcept { object->release(); }

StreamState::StreamState(DeviceState& device) : device_(&device), id_(next_id()) {}

void StreamState::do_call(std::function<void()>& /*function*/, std::uint64_t /*value*/) {
  throw Error(Errc::unsupported, device_->describe() + " has no native host calls");
}

void StreamState::do_prefetch(const PrefetchOp& /*op*/, std::uint64_t /*value*/) {
  throw Error(Errc::unsupported, device_->describe() + " does not move memory");
}

void StreamState::do_wait(StreamState& /*other*/, std::uint64_t /*wanted*/, std::uint64_t /*value*/) {
  throw Error(Errc::unsupported, device_->describe() + " has no native waits");
}

// Each caller submits its own work, in the order in which they came: nobody works for others, and what the driver
// refuses is thrown to whoever put it.
std::uint64_t StreamState::put(Op op) {
  // Whatever touches the other timeline happens before this one is locked: two streams may wait for each other's past.
  if (auto* wait = std::get_if<WaitOp>(&op)) {
    StreamState& other = *wait->other;
    if (&other == this || other.reached(wait->value)) return issued_.load(std::memory_order_acquire);
    other.throw_if_lost();
    const bool ours = other.device().backend == device_->backend;
    if (foreign() && ours && !other.wait_submitted(wait->value)) other.throw_if_lost();
    if (waits_natively(other) && other.submitted(wait->value)) other.ensure_marked(wait->value);
  }
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
    end_turn(lock);
    throw_if_lost();
  }
  return hold(std::move(op));
}

// Needs the lock.
std::uint64_t StreamState::hold(Op&& op) {
  start_worker();
  const auto value = issued_.load(std::memory_order_relaxed) + 1;
  queue_.push_back({std::move(op), value});
  issued_.store(value, std::memory_order_release);
  return value;
}

// Whether `op` cannot go to the driver now although nothing is before it.
bool StreamState::must_hold(const Op& op) const noexcept {
  if (std::holds_alternative<CallOp>(op)) return !calls_natively();
  if (const auto* wait = std::get_if<WaitOp>(&op)) {
    if (foreign()) return false;
    // Marked, not just submitted: it may have been submitted after put() looked, and then nobody marked it.
    return !waits_natively(*wait->other) || wait->other->marked_.load(std::memory_order_acquire) < wait->value;
  }
  return false;
}

void StreamState::submit(Op& op, std::uint64_t value) {
  std::visit(Overload{[&](CopyOp& copy) { do_copy(copy, value); }, [&](FillOp& fill) { do_fill(fill, value); },
                      [&](CallOp& call) { do_call(call.function, value); },
                      [&](WaitOp& wait) { do_wait(*wait.other, wait.value, value); },
                      [&](FreeOp& free) {
                        if (!free.segment->free_in_order(*this)) free_later(free, value);
                      },
                      [&](PrefetchOp& prefetch) { do_prefetch(prefetch, value); },
                      [&](MarkOp&) { foreign() ? mark_up_to(value) : do_mark(value); }, [](NativeOp&) {}},
             op);
}

// What cannot be freed in order, by the driver or because the timeline is lost, is freed when what the driver has is
// over.
void StreamState::free_later(FreeOp& op, std::uint64_t value) noexcept {
  detail::release_after(std::move(op.segment), *this, value);
}

// Whether only the library wants `op`. For that it may not use an application's stream that nobody names any more.
bool StreamState::needs_somebody(const Op& op) noexcept {
  const auto* const mark = std::get_if<MarkOp>(&op);
  return std::holds_alternative<FreeOp>(op) || (mark && mark->looks);
}

// Threads get it in the order in which they ask.
void StreamState::take_turn(Lock& lock) {
  const auto mine = next_turn_++;
  changed_.wait(lock, [&] { return turn_ == mine && !forking_; });
  inside_ = true;
}

// Needs the turn, without the lock.
void StreamState::mark_in_turn() { mark_up_to(submitted_.load(std::memory_order_relaxed)); }

void StreamState::mark_up_to(std::uint64_t value) {
  do_mark(value);
  do_flush();
  detail::atomic_max(marked_, value);
}

// Give up the turn; mark first, if somebody asked for that meanwhile. Nothing is reported before that is done: a user's
// function may ask this stream.
void StreamState::end_turn(Lock& lock) noexcept {
  bool newly_lost = false;
  if (std::exchange(mark_wanted_, false) && !lost() && may_look()) {
    lock.unlock();
    const auto refused = detail::thrown_by([&] { mark_in_turn(); });
    newly_lost = refused && says_gone(refused) && become_lost(refused);
    lock.lock();
  }
  inside_ = false;
  ++turn_;
  changed_.notify_all();
  if (!newly_lost) return;
  lock.unlock();
  report_lost();
  lock.lock();
}

// Of a stream that was forgotten, those who look hear of what was marked then.
std::uint64_t StreamState::position(MarkOp mark) noexcept {
  if (!foreign() || detail::LibraryThread::here()) return issued_.load(std::memory_order_acquire);
  try {
    return put(mark);
  } catch (...) {
    // No operation can be put now, but others may have used the native stream: a number that finished() will mark.
    Lock lock(mutex_);
    changed_.wait(lock, [&] { return !inside_; });
    const auto last = issued_.load(std::memory_order_relaxed);
    if (sealed_) return last;
    if (mark.looks && forgotten_) return marked_.load(std::memory_order_acquire);
    issued_.store(last + 1, std::memory_order_release);
    detail::atomic_max(submitted_, last + 1);
    return last + 1;
  }
}

std::uint64_t StreamState::mark() {
  if (!foreign()) {
    const auto issued = issued_.load(std::memory_order_acquire);
    if (known_reached(issued) || marked_.load(std::memory_order_acquire) >= issued) {
      throw_if_lost();
      return issued;
    }
  }
  return put(MarkOp{});
}

bool StreamState::reached(std::uint64_t value) noexcept {
  if (known_reached(value)) return true;
  if (lost()) return false;
  if (!submitted(value)) {
    if (orphaned_.load(std::memory_order_relaxed)) resume();
    return false;
  }
  const auto refused = detail::thrown_by([&] {
    if (marked_.load(std::memory_order_acquire) >= value || try_mark()) complete(do_poll());
  });
  if (refused) lose_if_gone(refused);
  return known_reached(value);
}

// False when somebody else has the turn, who marks then; and when nobody can.
bool StreamState::try_mark() {
  Lock lock(mutex_);
  if (!may_look()) return false;
  if (turn_ != next_turn_ || forking_) {
    mark_wanted_ = true;
    return false;
  }
  take_turn(lock);  // at once
  lock.unlock();
  const auto refused = detail::thrown_by([&] { mark_in_turn(); });
  lock.lock();
  end_turn(lock);
  if (refused) std::rethrow_exception(refused);
  return true;
}

bool StreamState::finished(std::uint64_t value) noexcept {
  if (device_->inherited) return true;  // its work goes on in the parent, on the parent's memory
  value = std::max(value, inherited_);  // what its threads had put, but not recorded yet
  if (reached(value)) return true;
  if (!lost()) return false;
  bool sealed = false;
  {  // what somebody is handing over, or runs, at this moment may become the last thing that runs
    const Lock lock(mutex_);
    if (inside_ || calling_) return false;
    sealed = sealed_;
  }
  // What the driver never had cannot run; what it had runs on although nobody may add to it.
  const auto last = std::min(value, submitted_.load(std::memory_order_acquire));
  if (known_reached(last)) return true;
  try {
    if (marked_.load(std::memory_order_acquire) < last) {
      if (sealed) return says_gone(error_) && !outlives_device();  // what ended it is all that one will ever know
      if (!try_mark()) return false;
    }
    complete(do_poll());
  } catch (const Error& error) {
    return error.code() == Errc::device_lost && !outlives_device();  // anything else leaves it unknown
  } catch (...) {
    return false;
  }
  return known_reached(last);
}

void StreamState::ensure_marked(std::uint64_t value) {
  if (marked_.load(std::memory_order_acquire) >= value || known_reached(value)) return;
  device_->check_process();
  Lock lock(mutex_);
  take_turn(lock);
  const bool possible = !sealed_, forgotten = forgotten_;
  lock.unlock();
  const auto refused = detail::thrown_by([&] {
    if (!possible || marked_.load(std::memory_order_acquire) >= value) return;
    if (forgotten)
      throw Error(Errc::unsupported, "nobody names stream " + std::to_string(id_) + " on " + device_->describe());
    mark_in_turn();
  });
  lock.lock();
  end_turn(lock);
  lock.unlock();
  if (!refused) return;
  lose_if_gone(refused);
  throw_if_lost();
  std::rethrow_exception(refused);
}

bool StreamState::wait_submitted(std::uint64_t value) {
  if (submitted(value)) return true;
  Lock lock(mutex_);
  if (orphaned_) start_worker();
  changed_.wait(lock, [&] { return submitted(value) || lost(); });
  return submitted(value) && !lost();
}

WaitStatus StreamState::wait_for(std::uint64_t value, std::chrono::nanoseconds timeout) {
  if (reached(value)) return WaitStatus::ready;
  using Clock = sync::Clock;
  const bool bounded = timeout.count() >= 0;
  // A limit that the clock cannot add is no limit.
  const bool endless = !bounded || timeout > std::chrono::hours{24 * 365 * 100};
  const auto deadline = endless ? Clock::time_point::max() : Clock::now() + timeout;
  {
    Lock lock(mutex_);
    if (orphaned_) start_worker();
    const auto here = [&] { return submitted(value) || lost(); };
    if (endless) {
      changed_.wait(lock, here);
    } else if (!changed_.wait_until(lock, deadline, here)) {
      return WaitStatus::timeout;
    }
  }
  if (lost()) return WaitStatus::lost;
  auto status = WaitStatus::lost;
  const auto refused = detail::thrown_by([&] {
    ensure_marked(value);
    if (reached(value)) {
      status = WaitStatus::ready;
    } else if (!lost()) {
      auto left = std::chrono::nanoseconds{-1};
      if (!endless) left = std::max(std::chrono::nanoseconds{0}, std::chrono::nanoseconds(deadline - Clock::now()));
      status = do_wait_host(value, left);
      if (status == WaitStatus::ready) complete(value);
    }
  });
  if (!refused) return status;
  lose_if_gone(refused);
  if (lost()) return WaitStatus::lost;
  std::rethrow_exception(refused);
}

void StreamState::flush() {
  const auto value = submitted_.load(std::memory_order_acquire);
  if (!known_reached(value)) ensure_marked(value);
}

void StreamState::complete(std::uint64_t value) noexcept { detail::atomic_max(reached_, value); }

void StreamState::throw_if_lost() {
  if (!lost()) return;
  device_->check_process();
  throw lost_error(*device_, id_, error_);
}

// Whether it says that the device or the peer is gone for good. Everything else may be different the next time.
bool StreamState::says_gone(const std::exception_ptr& error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code() == Errc::peer_gone || known.code() == Errc::device_lost;
  } catch (...) {
    return false;
  }
}

void StreamState::lose_if_gone(const std::exception_ptr& error) noexcept {
  if (says_gone(error)) lose(error);
}

void StreamState::lose(std::exception_ptr error) noexcept {
  if (become_lost(error)) report_lost();
}

// False when it was lost before.
bool StreamState::become_lost(const std::exception_ptr& error) noexcept {
  const Lock lock(mutex_);
  if (lost()) return false;
  error_ = error;
  lost_.store(true, std::memory_order_release);
  changed_.notify_all();
  return true;
}

void StreamState::report_lost() noexcept {
  if (submitted_.load() < inherited_) return;  // work of the parent, of which nobody here has asked for anything yet
  try {
    const auto failure = lost_error(*device_, id_, error_);
    report({failure.code(), "stream", failure.what()});
  } catch (const std::exception& shortage) {  // no memory to say why
    report({make_error_code(std::errc::not_enough_memory), "stream", shortage.what()});
  }
}

}  // namespace weir::spi
