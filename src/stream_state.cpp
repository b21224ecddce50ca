// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/stream_state.hpp"

#include <algorithm>
#include <utility>

#include "raise.hpp"
#include "reclaim.hpp"
#include "thrown_by.hpp"
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

// A peer that died keeps its name; every other end of a timeline is a lost device.
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
  if (forking_) changed_.wait(lock, [&] { return !forking_; });
  if (foreign()) changed_.wait(lock, [&] { return !turn_; });
  const auto value = issued_.load(std::memory_order_relaxed) + 1;
  if (turn_ || !queue_.empty() || must_hold(op)) {
    // A worker takes the front apart without the lock: then nobody looks at it.
    if (worker_ || !turn_ || must_hold(queue_.empty() ? op : queue_.front().op)) start_worker();
    queue_.push_back({std::move(op), value});
    issued_.store(value, std::memory_order_release);
    return value;
  }
  issued_.store(value, std::memory_order_release);
  turn_ = true;
  lock.unlock();
  const auto refused = detail::thrown_by([&] { submit(op, value); });
  lock.lock();
  detail::raise(submitted_, value);
  end_turn(lock);
  if (refused) std::rethrow_exception(refused);
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
                      [&](MarkOp&) { do_mark(value); }, [](NativeOp&) {}},
             op);
}

// What cannot be freed in order, by the driver or because the timeline is lost, is freed when what the driver has is
// over.
void StreamState::free_later(FreeOp& op, std::uint64_t value) noexcept {
  Segment* const left = op.segment.detach();  // leaked when it cannot be handed over
  try {
    detail::run_after(*left->device, {{Ref<StreamState>::retain(this), value}}, [left] { left->release(); });
  } catch (const std::exception& error) {
    detail::report_leak(*left->device, left->size, error.what());
  }
}

void StreamState::take_turn(Lock& lock) {
  changed_.wait(lock, [&] { return !turn_ && !forking_; });
  turn_ = true;
}

// Needs the turn, without the lock.
void StreamState::mark_in_turn() {
  const auto value = submitted_.load(std::memory_order_relaxed);
  do_mark(value);
  do_flush();
  detail::raise(marked_, value);
}

// Give up the turn; first do what others left behind while it was taken, as far as that needs no waiting.
void StreamState::end_turn(Lock& lock) noexcept {
  const auto settle = [&](auto&& action) {
    lock.unlock();
    if (const auto refused = detail::thrown_by(action)) lose(refused);
    lock.lock();
  };
  while (!lost() && !worker_ && !queue_.empty() && !must_hold(queue_.front().op) &&
         !std::holds_alternative<WaitOp>(queue_.front().op)) {
    Pending& pending = queue_.front();
    settle([&] { submit(pending.op, pending.value); });
    if (!lost()) detail::raise(submitted_, pending.value);
    Pending finished = std::move(queue_.front());
    queue_.pop_front();
    settle([&] { [[maybe_unused]] const Pending end = std::move(finished); });
  }
  if (std::exchange(mark_wanted_, false) && !lost()) settle([&] { mark_in_turn(); });
  turn_ = false;
  if (!queue_.empty()) {
    try {
      start_worker();
    } catch (...) {  // who put that work is gone
      settle([] { throw; });
    }
  }
  changed_.notify_all();
}

std::uint64_t StreamState::position() noexcept {
  if (!foreign()) return issued_.load(std::memory_order_acquire);
  try {
    return mark();
  } catch (...) {
    // No operation can be put any more, but others may have used the native stream: a number that finished() will mark.
    Lock lock(mutex_);
    changed_.wait(lock, [&] { return !turn_; });
    const auto value = issued_.load(std::memory_order_relaxed) + 1;
    issued_.store(value, std::memory_order_release);
    detail::raise(submitted_, value);
    return value;
  }
}

std::uint64_t StreamState::mark() {
  if (!foreign()) {
    const auto issued = issued_.load(std::memory_order_acquire);
    if (reached_.load(std::memory_order_acquire) >= issued || marked_.load(std::memory_order_acquire) >= issued) {
      throw_if_lost();
      return issued;
    }
  }
  return put(MarkOp{});
}

bool StreamState::reached(std::uint64_t value) {
  if (reached_.load(std::memory_order_acquire) >= value) return true;
  if (lost()) return false;
  if (!submitted(value)) {
    if (orphaned_.load(std::memory_order_relaxed)) resume();
    return false;
  }
  try {
    if (marked_.load(std::memory_order_acquire) < value && !try_mark()) return false;
    complete(do_poll());
  } catch (...) {
    lose(std::current_exception());
    return false;
  }
  return reached_.load(std::memory_order_acquire) >= value;
}

// False when somebody else has the turn; they mark then.
bool StreamState::try_mark() {
  Lock lock(mutex_);
  if (turn_ || forking_) {
    mark_wanted_ = true;
    return false;
  }
  turn_ = true;
  lock.unlock();
  const auto refused = detail::thrown_by([&] { mark_in_turn(); });
  lock.lock();
  end_turn(lock);
  if (refused) std::rethrow_exception(refused);
  return true;
}

bool StreamState::finished(std::uint64_t value) {
  if (device_->inherited) return true;  // its work goes on in the parent, on the parent's memory
  value = std::max(value, inherited_);  // what its threads had put, but not recorded yet
  if (reached(value)) return true;
  if (!lost()) return false;
  {  // what somebody is handing over, or runs, at this moment may become the last thing that runs
    const Lock lock(mutex_);
    if (turn_ || calling_) return false;
  }
  // What the driver never had cannot run; what it had runs on although nobody may add to it.
  const auto last = std::min(value, submitted_.load(std::memory_order_acquire));
  if (reached_.load(std::memory_order_acquire) >= last) return true;
  try {
    if (marked_.load(std::memory_order_acquire) < last && !try_mark()) return false;
    complete(do_poll());
  } catch (const Error& error) {
    return error.code() == Errc::device_lost && !outlives_device();  // anything else leaves it unknown
  } catch (...) {
    return false;
  }
  return reached_.load(std::memory_order_acquire) >= last;
}

void StreamState::ensure_marked(std::uint64_t value) {
  if (marked_.load(std::memory_order_acquire) >= value || reached_.load(std::memory_order_acquire) >= value) return;
  device_->check_process();
  Lock lock(mutex_);
  take_turn(lock);
  lock.unlock();
  const auto refused = detail::thrown_by([&] {
    if (marked_.load(std::memory_order_acquire) < value) mark_in_turn();
  });
  if (refused) lose(refused);
  lock.lock();
  end_turn(lock);
  if (refused) throw_if_lost();
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
  using Clock = std::chrono::steady_clock;
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
  try {
    ensure_marked(value);
    if (reached(value)) return WaitStatus::ready;
    if (lost()) return WaitStatus::lost;
    auto left = std::chrono::nanoseconds{-1};
    if (!endless) left = std::max(std::chrono::nanoseconds{0}, std::chrono::nanoseconds(deadline - Clock::now()));
    const auto status = do_wait_host(value, left);
    if (status == WaitStatus::ready) complete(value);
    return status;
  } catch (...) {
    lose(std::current_exception());
    return WaitStatus::lost;
  }
}

void StreamState::flush() {
  const auto value = submitted_.load(std::memory_order_acquire);
  if (reached_.load(std::memory_order_acquire) < value) ensure_marked(value);
}

void StreamState::complete(std::uint64_t value) noexcept { detail::raise(reached_, value); }

void StreamState::throw_if_lost() {
  if (!lost()) return;
  device_->check_process();
  throw lost_error(*device_, id_, error_);
}

void StreamState::end() noexcept {
  if (!device_->inherited) destroy();
}

void StreamState::lose(std::exception_ptr error) noexcept {
  {
    const Lock lock(mutex_);
    if (lost()) return;
    error_ = std::move(error);
    lost_.store(true, std::memory_order_release);
    changed_.notify_all();
  }
  if (submitted_.load() < inherited_) return;  // work of the parent, of which nobody here has asked for anything yet
  try {
    const auto failure = lost_error(*device_, id_, error_);
    report({failure.code(), "stream", failure.what()});
  } catch (const std::exception& shortage) {  // no memory to say why
    report({make_error_code(std::errc::not_enough_memory), "stream", shortage.what()});
  }
}

}  // namespace weir::spi
