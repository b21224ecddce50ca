// SPDX-License-Identifier: Apache-2.0
// What resources keep beside streams. The list of a stream only grows, so that it is read without a lock.
#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "forks.hpp"
#include "reclaim.hpp"
#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

// One for all: streams and owners end beside each other, and both are rare.
constinit std::mutex attachments_mutex;

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

void* StreamState::attach(const void* owner, void* object, Attachment::Unused unused) {
  const AttachmentLock lock;
  if (void* const faster = attached(owner)) return faster;
  auto* one = attachments_.load(std::memory_order_relaxed);
  while (one && one->owner.load(std::memory_order_relaxed)) one = one->next;
  if (!one) {
    one = new Attachment;
    one->next = attachments_.load(std::memory_order_relaxed);
    attachments_.store(one, std::memory_order_release);
  }
  one->object = object;
  one->unused = unused;
  one->owner.store(owner, std::memory_order_release);
  return object;
}

Attachment::Progress StreamState::progress() noexcept {
  const auto outside = foreign() ? position() : 0;
  const auto last = issued();
  return {outside, finished(last) ? last : reached_.load(std::memory_order_acquire)};
}

// The caller's is the last count, but for those that come through live blocks meanwhile.
void StreamState::release_last() noexcept {
  bool kept = false;
  std::uint64_t until = 0;
  if (attachments_.load(std::memory_order_acquire)) {
    const auto progress = this->progress();
    const AttachmentLock lock;
    for (auto* one = attachments_.load(std::memory_order_relaxed); one; one = one->next) {
      if (!one->owner.load(std::memory_order_relaxed)) continue;
      const auto answer = one->unused(one->object, progress);
      if (answer == Attachment::detached) {
        one->owner.store(nullptr, std::memory_order_release);
      } else if (answer == Attachment::kept) {
        kept = true;
      } else {
        until = std::max(until, answer);
      }
    }
  }
  if (until != 0) {
    kept = true;
    try {
      detail::run_after(*device_, {Point{Ref<StreamState>::retain(this), until}}, [] {});
    } catch (const std::exception&) {  // rather than ending it early
      return report({{}, "end of a stream", "the stream is leaked, because its last use of a pool could not be waited for"});
    }
  }
  if (kept) return release();
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
}

}  // namespace spi
}  // namespace weir
