// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/attachment.hpp"

#include <mutex>

#include "base/forks.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

// One mutex for all attachments: a stream and an owner may end at the same time, and both ends are rare. Only changes need
// it. The list of a stream only grows, so attached() reads it without a lock.
constinit sync::Mutex attachments_mutex;

const detail::ForkStep attachments_step(1, [](spi::ForkMoment moment) noexcept { detail::hold_across_fork(attachments_mutex, moment); });

}  // namespace

namespace spi {

AttachmentLock::AttachmentLock() noexcept { attachments_mutex.lock(); }
AttachmentLock::~AttachmentLock() { attachments_mutex.unlock(); }

void AttachmentLock::detach(StreamState& stream, const void* owner) noexcept {
  for (auto* one = stream.attachments_.load(std::memory_order_relaxed); one; one = one->next) {
    if (one->owner.load(std::memory_order_relaxed) == owner) one->owner.store(nullptr, std::memory_order_release);
  }
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

// Return whether a resource has memory that was allocated on this stream. Memory that was merely used on it has points
// of its own.
bool StreamState::has_memory() const noexcept {
  for (auto* one = attachments_.load(std::memory_order_acquire); one; one = one->next) {
    if (one->owner.load(std::memory_order_acquire) && one->thread != 0) return true;
  }
  return false;
}

// From now on, an owner of live memory that was allocated here marks the stream before it gives the memory back. The
// mark that follows this call covers memory that was closed before.
void StreamState::tell_forgotten() noexcept {
  const AttachmentLock lock;
  for (auto* one = attachments_.load(std::memory_order_relaxed); one; one = one->next) {
    if (one->owner.load(std::memory_order_relaxed) && one->events) one->events->forgotten(one->object);
  }
}

// Return whether an owner has more to do.
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

}  // namespace spi
}  // namespace weir
