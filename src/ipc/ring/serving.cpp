// SPDX-License-Identifier: Apache-2.0
// How frames go over the links, and how slots come back. schedule.hpp says which and when.
#include <cstdint>
#include <utility>
#include <vector>

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

/// Carries frames over the links, with the lock.
class Producer::Wire {
 public:
  Wire(const Producer& ring, const Stream* stream, After& after) : ring_(ring), stream_(stream), after_(after) {}

  [[nodiscard]] static channel::Link::Capacity capacity(const Line& link) { return link->capacity(); }
  [[nodiscard]] bool greet(const Line& link, std::uint64_t first) const {
    const Buffer token = ring_.slots_->token();
    const auto said = encode(Greeting{first, ring_.options_.layout});
    const channel::Outgoing one{&token, said, ring_.options_.access};
    return link->try_send({&one, 1}, ring_.slots_->idle()) != 0;
  }
  // Without a stream of the caller, a stream that has no other work carries the order.
  template <class At>
  [[nodiscard]] std::size_t send(const Line& link, At from, At to) const {
    std::vector<channel::Outgoing> some;
    bool complete = true;
    for (auto at = from; at != to; ++at) {
      some.push_back({&at->frame.buffer, at->frame.payload, ring_.options_.access});
      complete = complete && (stream_ || at->frame.buffer.block()->uses_before(nullptr).empty());
    }
    if (stream_) return link->try_send(some, *stream_);
    return link->try_send(some, complete ? ring_.slots_->idle() : Stream(host_device()));
  }
  static void end(const Line& link) noexcept { link->close(); }
  void failed() noexcept {
    try {
      throw;
    } catch (const Error& error) {
      if (error.code() != Errc::peer_gone) after_.failure = std::current_exception();  // of that one hears soon
    } catch (...) {
      after_.failure = std::current_exception();
    }
  }

 private:
  const Producer& ring_;
  const Stream* const stream_;
  After& after_;
};

void Producer::serve_all(const Stream* stream, After& after) noexcept {
  Wire wire(*this, stream, after);
  plan_.serve(wire);
  plan_.forget(wire, after.ended);
}

// Take back the oldest frame that nobody but the ring has.
bool Producer::drop_one() {
  After after;
  after.ended.reserve(1);
  const std::scoped_lock lock(serving_);
  auto oldest = plan_.drop(
      [](const Waiting& frame) { return frame.buffer.block()->owners.load(std::memory_order_acquire) == 1; });
  if (!oldest) return false;
  after.ended.push_back(*std::move(oldest));
  return true;
}

}  // namespace weir::detail::ring
