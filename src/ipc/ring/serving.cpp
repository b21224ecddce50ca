// SPDX-License-Identifier: Apache-2.0
// How frames go over the links, and how slots come back. schedule.hpp says which and when.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "base/shortage.hpp"
#include "ipc/ring/greeting.hpp"
#include "ipc/ring/producer.hpp"
#include "weir/error.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail::ring {

// The ends of frames and the failure sink may take locks of anybody.
Producer::After::~After() {
  if (short_of) short_of->change_later();
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

/// Carries frames over the links, with the lock.
class Producer::Wire {
 public:
  Wire(const Producer& ring, const Ordered* ordered, After& after) : ring_(ring), ordered_(ordered), after_(after) {}

  [[nodiscard]] static channel::Link::Capacity capacity(const Line& link) { return link->capacity(); }
  [[nodiscard]] bool greet(const Line& link, std::uint64_t first) const {
    const Buffer token = ring_.slots_->token();
    const auto said = encode(Greeting{first, ring_.options_.layout});
    const channel::Outgoing one{&token, said, ring_.options_.access};
    token.order_after_uses(ring_.slots_->idle());
    return link->try_send({&one, 1}, ring_.slots_->idle()) != 0;
  }
  // The caller's stream is for the caller's frames alone. For others, a stream that has no other work carries the order:
  // it is the library's own, which nothing keeps waiting here.
  template <class At>
  [[nodiscard]] std::size_t send(const Line& link, At from, At to) const {
    const bool ordered = ordered_ && from->sequence >= ordered_->first;
    std::vector<channel::Outgoing> some;
    bool complete = true;
    for (auto at = from; at != to && (ordered || !ordered_ || at->sequence < ordered_->first); ++at) {
      some.push_back({&at->frame.buffer, at->frame.payload, ring_.options_.access});
      complete = complete && (ordered || at->frame.buffer.block()->uses_before(nullptr).empty());
    }
    if (ordered) return link->try_send(some, ordered_->stream);
    if (complete) return link->try_send(some, ring_.slots_->idle());
    const Stream after(host_device());
    for (const channel::Outgoing& one : some) one.buffer->order_after_uses(after);
    return link->try_send(some, after);
  }
  /// Return false where it cannot be known now.
  [[nodiscard]] bool is_lost(const Waiting& frame) noexcept {
    try {
      return std::ranges::any_of(frame.buffer.block()->uses_before(nullptr),
                                 [](const spi::Point& use) { return use.stream->lost(); });
    } catch (const std::exception&) {
      after_.short_of = *failed_;
      return false;
    }
  }
  static void end(const Line& link) noexcept { link->close(); }
  void failed(const Line& link) noexcept {
    failed_ = &link;
    const bool is_short = is_shortage();
    if (is_short) after_.short_of = link;
    if (is_short && ring_.short_) return;  // which has been reported
    if (!link->capacity().left && !link->hung_up()) after_.failure = std::current_exception();  // else one hears soon
  }

 private:
  const Producer& ring_;
  const Ordered* const ordered_;
  After& after_;
  const Line* failed_ = nullptr;  // the last one that did
};

void Producer::serve_all(const Ordered* ordered, After& after) noexcept {
  Wire wire(*this, ordered, after);
  plan_.serve(wire, after.ended);
  plan_.forget(wire, after.ended);
  short_ = after.short_of != nullptr;
}

// Take back the oldest frame whose slot nobody but the ring has. Several frames may be parts of one slot.
bool Producer::drop_one() {
  After after;
  after.ended.reserve(1);
  const std::scoped_lock lock(serving_);
  auto oldest = plan_.drop([](const Waiting& frame, const auto& all) {
    const spi::Block* const slot = frame.buffer.block();
    const auto parts = std::ranges::count_if(all, [&](const auto& one) { return one.frame.buffer.block() == slot; });
    return slot->owners.load(std::memory_order_acquire) == static_cast<std::uint32_t>(parts);
  });
  if (!oldest) return false;
  if (oldest->frame.buffer.block()->owners.load(std::memory_order_acquire) == 1) slots_->drops(oldest->frame.buffer);
  after.ended.push_back(*std::move(oldest));
  return true;
}

}  // namespace weir::detail::ring
