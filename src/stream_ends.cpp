// SPDX-License-Identifier: Apache-2.0
// The end of a stream: its last use, what resources keep beside it, its last value. The list of attachments only grows,
// so that it is read without a lock.
#include <mutex>
#include <utility>

#include "base/own_thread.hpp"
#include "forks.hpp"
#include "raise.hpp"
#include "thrown_by.hpp"
#include "watcher.hpp"
#include "weir/error.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

// One for all: streams and owners end beside each other, and both are rare.
constinit sync::Mutex attachments_mutex;

}  // namespace

void detail::fork_attachments(spi::ForkMoment moment) noexcept {
  moment == spi::ForkMoment::before ? attachments_mutex.lock() : attachments_mutex.unlock();
}

namespace spi {

AttachmentLock::AttachmentLock() noexcept { attachments_mutex.lock(); }
AttachmentLock::~AttachmentLock() { attachments_mutex.unlock(); }

void AttachmentLock::detach(StreamState& stream, const void* owner) noexcept {
  for (auto* one = stream.attachments_.load(std::memory_order_relaxed); one; one = one->next) {
    if (one->owner.load(std::memory_order_relaxed) == owner) one->owner.store(nullptr, std::memory_order_release);
  }
}

StreamState::~StreamState() {
  for (auto* one = attachments_.load(std::memory_order_acquire); one;) delete std::exchange(one, one->next);
}

void* StreamState::attach(const void* owner, sync::ThreadId thread, void* object, const AttachmentEvents* events) {
  const AttachmentLock lock;
  if (void* const faster = attached(owner, thread)) return faster;
  auto* one = attachments_.load(std::memory_order_relaxed);
  while (one && one->owner.load(std::memory_order_relaxed)) one = one->next;
  if (!one) {
    one = new Attachment;
    one->next = attachments_.load(std::memory_order_relaxed);
    attachments_.store(one, std::memory_order_release);
  }
  one->thread = thread;
  one->object = object;
  one->events = events;
  one->owner.store(owner, std::memory_order_release);
  return object;
}

void StreamState::mark_outside() noexcept {
  if (foreign()) (void)position();
}

Progress StreamState::progress(Named named) noexcept {
  std::uint64_t outside = 0, last = issued();
  if (foreign()) outside = last = named == Named::yes ? position() : marked_.load(std::memory_order_acquire);
  return {outside, finished(last) ? last : reached_.load(std::memory_order_acquire)};
}

// The caller has the last use, unless somebody finds the stream by its native handle meanwhile.
void StreamState::release_last() noexcept {
  for (;;) {
    const auto seen = uses_.look();
    if (!UseCount::is_last(seen)) {
      if (uses_.drop()) return;
      continue;
    }
    if (attachments_.load(std::memory_order_acquire)) {
      if (has_memory()) mark_outside();  // nobody may later
      if (kept_in_use()) return;
    }
    if (uses_.end(seen)) return close();
  }
}

// Whether a resource has memory that was allocated on it. What was merely used on it has points of its own.
bool StreamState::has_memory() const noexcept {
  for (auto* one = attachments_.load(std::memory_order_acquire); one; one = one->next) {
    if (one->owner.load(std::memory_order_acquire) && one->thread != 0) return true;
  }
  return false;
}

bool StreamState::kept_in_use() noexcept {
  const AttachmentLock lock;
  for (auto* one = attachments_.load(std::memory_order_relaxed); one; one = one->next) {
    if (one->owner.load(std::memory_order_relaxed) && one->events && one->events->keeps(one->object)) return true;
  }
  return false;
}

void StreamState::close() noexcept {
  const auto last = seal();
  do_close();
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
    const auto passed = [](Waiter& waiter, InHand& /*others*/) noexcept { detail::Watcher::get().post(static_cast<End&>(waiter)); };
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

// The last value. An application's stream gets a last mark, while its handle is still valid, if anybody will want to
// know when the memory that was used there is free.
std::uint64_t StreamState::seal() noexcept {
  if (!foreign() || device_->inherited) return issued();
  Lock lock(mutex_);
  take_turn(lock);
  const bool owes = marked_.load(std::memory_order_acquire) < awaited_.load(std::memory_order_relaxed);
  const bool asked_for = has_memory() || owes;
  if (asked_for && !lost() && !detail::OwnThread::here()) {
    const auto last = issued() + 1;
    issued_.store(last, std::memory_order_release);
    detail::raise(submitted_, last);
    lock.unlock();
    const bool newly_lost = !mark_for_good();
    lock.lock();
    sealed_ = true;
    end_turn(lock);
    lock.unlock();
    if (newly_lost) report_lost();
    return last;
  }
  sealed_ = true;
  end_turn(lock);
  return asked_for || lost() ? issued() : marked_.load(std::memory_order_acquire);  // what nobody asks for need not be over
}

// With the turn. False when the timeline became lost by that: nobody can ask for this mark later.
bool StreamState::mark_for_good() noexcept {
  constexpr unsigned tries = 64;
  for (unsigned round = 0;; ++round) {
    const auto refused = detail::thrown_by([&] { mark_in_turn(); });
    if (!refused) return true;
    if (round + 1 == tries || says_gone(refused)) return !become_lost(refused);
    sync::pause(round);
  }
}

// Whether somebody has more to do.
bool StreamState::tell_over() noexcept {
  const AttachmentLock lock;
  bool more = false;
  for (auto* one = attachments_.load(std::memory_order_relaxed); one; one = one->next) {
    if (!one->owner.load(std::memory_order_relaxed) || !one->events) continue;
    const auto answer = one->events->over(one->object);
    if (answer == AttachmentEvents::Answer::gone) one->owner.store(nullptr, std::memory_order_release);
    more = more || answer == AttachmentEvents::Answer::more;
  }
  return more;
}

void StreamState::end() noexcept {
  if (!device_->inherited) destroy();
}

}  // namespace spi
}  // namespace weir
