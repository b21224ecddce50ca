// SPDX-License-Identifier: Apache-2.0
// Who is sent which frame, and which frames are forgotten. All of it with the lock.
#include <algorithm>
#include <new>
#include <utility>

#include "ipc/ring/greeting.hpp"
#include "ipc/ring/producer.hpp"
#include "weir/error.hpp"
#include "weir/spi/block.hpp"

namespace weir::detail::ring {

// The ends of frames and the failure sink may take locks of anybody.
Producer::After::~After() {
  if (!failure) return;
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    report({error.code(), "ipc::RingProducer", error.what()});
  } catch (const std::exception& error) {
    report({{}, "ipc::RingProducer", error.what()});
  }
}

// What the peers said has been read: they may have room, they may have given something back, or be gone.
void Producer::link_changed() noexcept {
  {
    After after;
    const std::scoped_lock lock(serving_);
    serve_all(nullptr, after);
  }
  slots_->nudge();
}

void Producer::serve_all(const Stream* stream, After& after) {
  for (Consumer& consumer : consumers_) {
    try {
      serve(consumer, stream);
    } catch (const Error& error) {
      if (error.code() != Errc::peer_gone) after.failure = std::current_exception();  // of that one hears soon
    } catch (...) {
      after.failure = std::current_exception();
    }
  }
  forget(after);
}

void Producer::serve(Consumer& consumer, const Stream* stream) {
  for (;;) {
    if (stream && consumer.greeted && consumer.next == next_) return;
    const auto capacity = consumer.link->capacity();
    consumer.left = capacity.left;
    if (capacity.room == 0) return;
    if (!consumer.greeted) {
      if (!greet(consumer)) return;
      continue;
    }
    if (capacity.lent >= options_.per_consumer) return;
    const std::size_t most = std::min<std::size_t>(capacity.room, options_.per_consumer - capacity.lent);
    if (send(consumer, most, stream) == 0) return;
  }
}

bool Producer::greet(Consumer& consumer) {
  const Buffer token = slots_->token();
  const auto said = encode(Greeting{consumer.next, options_.layout});
  const channel::Outgoing one{&token, said, options_.access};
  consumer.greeted = consumer.link->try_send({&one, 1}, slots_->idle()) != 0;
  return consumer.greeted;
}

// Send up to `most` frames. Without a stream of the caller, a stream that has no other work carries the order.
std::size_t Producer::send(Consumer& consumer, std::size_t most, const Stream* stream) {
  std::vector<channel::Outgoing> some;
  bool complete = true;
  const auto begin = find(consumer.next);
  for (auto frame = begin; frame != waiting_.end() && some.size() < most; ++frame) {
    some.push_back({&frame->buffer, frame->payload, options_.access});
    complete = complete && (stream || frame->buffer.block()->uses_before(nullptr).empty());
  }
  if (some.empty()) return 0;
  const auto sent = stream     ? consumer.link->try_send(some, *stream)
                    : complete ? consumer.link->try_send(some, slots_->idle())
                               : consumer.link->try_send(some, Stream(host_device()));
  for (auto frame = begin; frame != begin + static_cast<std::ptrdiff_t>(sent); ++frame) {
    consumer.missed += frame->sequence - consumer.next;
    consumer.next = frame->sequence + 1;
  }
  return sent;
}

std::deque<Producer::Waiting>::const_iterator Producer::find(std::uint64_t sequence) const {
  return std::ranges::lower_bound(waiting_, sequence, {}, &Waiting::sequence);
}

// Forget the consumers that are gone, and the frames that all others have been sent.
void Producer::forget(After& after) {
  std::uint64_t needed = next_;
  for (auto consumer = consumers_.begin(); consumer != consumers_.end();) {
    const auto now = consumer->link->capacity();
    if (now.ended || (now.left && now.lent == 0)) {
      consumer->link->close();
      consumer = consumers_.erase(consumer);
      continue;
    }
    if (!now.left) needed = std::min(needed, consumer->next);
    ++consumer;
  }
  const auto over = static_cast<std::size_t>(std::as_const(*this).find(needed) - waiting_.begin());
  try {
    after.ended.reserve(over);
  } catch (const std::bad_alloc&) {
    return;  // they are forgotten the next time
  }
  for (std::size_t i = 0; i < over; ++i) {
    after.ended.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// Take back the oldest frame that nobody but the ring has.
bool Producer::drop_one() {
  After after;
  const std::scoped_lock lock(serving_);
  const auto oldest = std::ranges::find_if(
      waiting_, [](const Waiting& frame) { return frame.buffer.block()->owners.load(std::memory_order_acquire) == 1; });
  if (oldest == waiting_.end()) return false;
  after.ended.push_back(std::move(*oldest));
  waiting_.erase(oldest);
  ++dropped_;
  return true;
}

}  // namespace weir::detail::ring
