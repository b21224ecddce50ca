// SPDX-License-Identifier: Apache-2.0
// The end of a stream: its last use, and its last value.
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

void StreamState::mark_outside() noexcept {
  if (foreign()) (void)position();
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
  return {outside, finished(last) ? last : reached_.load(std::memory_order_acquire)};
}

bool StreamState::try_retain() noexcept {
  if (!uses_.try_add()) return false;
  if (foreign()) {
    const Lock lock(mutex_);
    forgotten_ = false;
  }
  return true;
}

// Nobody names the timeline any more, unless somebody finds it by its native handle meanwhile. The caller holds a use
// of memory until all that only it may do is done: its native stream may be destroyed as soon as it returns.
void StreamState::forget() noexcept {
  if (attachments_.load(std::memory_order_acquire)) tell_forgotten();
  if (foreign() && !device_->inherited) become_forgotten();
  if (uses_.drop_memory()) close();
}

// In one turn: whoever looked before has gone, and whoever looks later has to do with this mark. Whoever gives memory
// back marks that itself from the beginning of the turn on, because it may come after the mark. Where there is no mark,
// refused or on a thread of the library, there is a value that the end of the timeline still owes.
void StreamState::become_forgotten() noexcept {
  Lock lock(mutex_);
  take_turn(lock);
  forgotten_ = !uses_.named();
  const bool asked_for = attachments_.load(std::memory_order_acquire) || owes();
  std::exception_ptr refused;
  if (asked_for && !lost() && !sealed_) {
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

// Their owner may be the last who may have this marked.
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
  if (!device_->inherited) do_close();  // a thread of the parent may have had the backend's locks when it forked
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
    keep();  // until everybody was told
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

// The last value. What others put on an application's stream was marked when it was forgotten, and by whoever gave
// memory back later. What was refused then gets its mark now if anybody will want to know when that memory is free.
std::uint64_t StreamState::seal() noexcept {
  if (!foreign() || device_->inherited) return issued();
  Lock lock(mutex_);
  take_turn(lock);
  const bool asked_for = has_memory() || owes();
  bool newly_lost = false;
  if (asked_for && !lost() && marked_.load(std::memory_order_acquire) < issued()) {
    lock.unlock();
    newly_lost = !mark_for_good();
    if (newly_lost && !says_gone(error_)) ended_unmarked_.store(true, std::memory_order_release);
    lock.lock();
  }
  sealed_ = true;
  end_turn(lock);
  lock.unlock();
  if (newly_lost) report_lost();
  return asked_for || lost() ? issued() : marked_.load(std::memory_order_acquire);  // what nobody asks for need not be over
}

// With the turn. False when the timeline became lost by that: nobody can ask for this mark later. A thread of the
// library may not ask at all: the application may have destroyed the stream when it had nothing of it any more.
bool StreamState::mark_for_good() noexcept {
  constexpr unsigned tries = 64;
  for (unsigned round = 0;; ++round) {
    const bool own = detail::LibraryThread::here();
    const auto refused = detail::thrown_by([&] {
      if (own)
        throw Error(Errc::unsupported, "memory was its last use, and its last point could not be recorded before");
      mark_in_turn();
    });
    if (!refused) return true;
    if (round + 1 == tries || own || says_gone(refused)) return !become_lost(refused);
    sync::pause(round);
  }
}

void StreamState::end() noexcept {
  if (!device_->inherited) destroy();
}

}  // namespace weir::spi
