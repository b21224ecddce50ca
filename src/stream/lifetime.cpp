// SPDX-License-Identifier: Apache-2.0
// The end of a stream: its last use, and its last value.
#include <algorithm>
#include <utility>

#include "base/atomic_max.hpp"
#include "base/library_thread.hpp"
#include "base/thrown_by.hpp"
#include "stream/watcher.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::spi {

StreamState::~StreamState() {
  for (auto* one = attachments_.load(std::memory_order_acquire); one;) delete std::exchange(one, one->next);
}

void StreamState::mark_used(std::uint64_t value) noexcept {
  if (!foreign()) {
    (void)reached(value);
  } else if (marked_.load(std::memory_order_acquire) < value) {
    mark_outside();
  }
}

void StreamState::mark_forgotten() noexcept {
  if (!foreign()) return;
  {
    const Lock lock(mutex_);
    if (!forgotten_) return;
  }
  (void)position();
}

Progress StreamState::progress() noexcept {
  std::uint64_t outside = 0, last = issued();
  if (foreign()) outside = last = position(MarkOp{.looks = true});
  if (finished(last)) return {outside, last};
  return {outside, std::max(reached_.load(std::memory_order_acquire), over_.load(std::memory_order_acquire))};
}

bool StreamState::try_retain() noexcept {
  if (!uses_.try_add()) return false;
  if (foreign()) {
    const Lock lock(mutex_);
    forgotten_ = false;
  }
  return true;
}

// Called when nobody names the timeline any more, although another thread may find it by its native handle meanwhile.
// The caller holds a use of memory until it has done everything that only it may do: the application may destroy the
// native stream as soon as this call returns.
void StreamState::forget() noexcept {
  if (attachments_.load(std::memory_order_acquire)) tell_forgotten();
  if (foreign() && !device_->inherited) become_forgotten();
  if (uses_.drop_memory()) close();
}

// Everything happens in one turn: a thread that looked before has finished, and a thread that looks later must make do
// with this mark. From the beginning of the turn on, a thread that gives memory back makes a mark itself, because it
// may come after this one. Where this makes no mark, because the driver refuses it or this is a thread of the library,
// there is still a new value, and the end of the timeline owes a mark for it.
void StreamState::become_forgotten() noexcept {
  Lock lock(mutex_);
  take_turn(lock);
  forgotten_ = !uses_.named();
  // A thread of the library may be the last that has memory which was used here, and must not ask then.
  const bool used = uses_.has_more_memory() && marked_.load(std::memory_order_acquire) < issued();
  const bool asked_for = attachments_.load(std::memory_order_acquire) || owes() || used;
  std::exception_ptr refused;
  if (asked_for && may_mark()) {
    const auto last = issued() + 1;
    issued_.store(last, std::memory_order_release);
    detail::atomic_max(submitted_, last);
    if (!detail::LibraryThread::here()) {
      lock.unlock();
      refused = detail::thrown_by([&] { mark_up_to(last); });
      lock.lock();
    }
  }
  end_turn(lock);
  lock.unlock();
  if (refused) lose_if_gone(refused);
}

// The caller owns memory that was used here, and may be the last that is allowed to have the stream marked.
void StreamState::release_memory() noexcept {
  if (owes()) mark_forgotten();
  if (uses_.drop_memory()) close();
}

void StreamState::release_unasked() noexcept {
  const detail::LibraryThread forbidden;
  if (uses_.drop_memory()) close();
}

bool StreamState::owes() const noexcept {
  return marked_.load(std::memory_order_acquire) < awaited_.load(std::memory_order_relaxed);
}

void StreamState::close() noexcept {
  const auto last = seal();
  if (!device_->inherited) do_close();  // at the fork, a thread of the parent may have held the backend's locks
  if (attachments_.load(std::memory_order_acquire)) {
    {
      const AttachmentLock lock;
      for (auto* one = attachments_.load(std::memory_order_relaxed); one; one = one->next) {
        if (one->owner.load(std::memory_order_relaxed) && one->events) one->events->closed(one->object, last);
      }
    }
    end_.of = this;
    end_.run = [](Job& job) noexcept {
      StreamState& self = *static_cast<End&>(job).of;
      while (self.tell_over()) {
      }
      self.unkeep();
    };
    keep();  // until every owner has been told
    const auto passed = [](Waiter& waiter, InHand& /*others*/) noexcept {
      detail::Watcher::get().post(static_cast<End&>(waiter));
    };
    if (!finished(last)) {
      if (!after(last, end_, passed, true)) detail::Watcher::get().post(end_);
    } else if (tell_over()) {
      detail::Watcher::get().post(end_);
    } else {
      unkeep();
    }
  }
  unkeep();
}

// Return the last value. What others put on an application's stream was marked when the stream was forgotten, and again
// by each thread that gave memory back later. If a mark was refused then, it is made now, provided that anybody will
// want to know when that memory is free.
std::uint64_t StreamState::seal() noexcept {
  if (!foreign() || device_->inherited) return issued();
  Lock lock(mutex_);
  take_turn(lock);
  const bool asked_for = has_memory() || owes();
  bool newly_lost = false;
  std::exception_ptr unmarked;
  if (asked_for && may_mark() && marked_.load(std::memory_order_acquire) < issued()) {
    lock.unlock();
    const auto refused = mark_for_good();
    newly_lost = refused && become_lost(refused);
    const bool device_gone = refused && says_gone(refused);
    if (refused && !device_gone) ended_unmarked_.store(true, std::memory_order_release);
    unmarked = refused && !device_gone && !newly_lost ? refused : nullptr;
    lock.lock();
    if (device_gone) goes_on_ = false;
  }
  sealed_ = true;
  end_turn(lock);
  lock.unlock();
  if (newly_lost) report_lost();
  if (unmarked) report_unmarked(unmarked);
  // Work that nobody asks about need not be complete.
  return asked_for || lost() ? issued() : marked_.load(std::memory_order_acquire);
}

// Needs the turn. Return why there is no mark, which ends the timeline: nobody can make this mark later. A thread of
// the library may not make it at all, because the application may have destroyed the stream once it held nothing that
// uses it.
std::exception_ptr StreamState::mark_for_good() noexcept {
  constexpr unsigned tries = 64;
  for (unsigned round = 0;; ++round) {
    const bool own = detail::LibraryThread::here();
    const auto refused = detail::thrown_by([&] {
      if (own)
        throw Error(Errc::unsupported, "memory was its last use, and its last point could not be recorded before");
      mark_in_turn();
    });
    if (!refused || round + 1 == tries || own || says_gone(refused)) return refused;
    sync::pause(round);
  }
}

void StreamState::end() noexcept {
  if (!device_->inherited) destroy();
}

}  // namespace weir::spi
