// SPDX-License-Identifier: Apache-2.0
// What the user calls. serving.cpp has the rest.
#include "ipc/ring/producer.hpp"

#include <string>
#include <utility>

#include "base/forks.hpp"
#include "ipc/channel/links.hpp"
#include "ipc/ring/greeting.hpp"
#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail::ring {

Producer::Producer(MemoryResource& resource, ipc::RingOptions options)
    : options_(std::move(options)),
      slots_(Slots::make(resource, options_.slots, options_.slot_bytes)),
      process_(fork_generation),
      plan_(options_.per_consumer) {}

bool Producer::inherited() const noexcept { return process_ != fork_generation; }

void Producer::check(const char* operation) const {
  if (closed_) throw Error(Errc::closed, std::string("ipc::RingProducer::") + operation + ": the ring is closed");
}

std::uint64_t Producer::add(spi::StrangerFd& socket) {
  channel::check_socket("ipc::RingProducer::add_consumer", socket.get());
  std::shared_ptr<channel::Link> link;
  std::uint64_t id = 0;
  {
    const ReportsLater later;
    const std::scoped_lock lock(serving_);
    check("add_consumer");
    const std::size_t needed = (plan_.consumers().size() + 1) * options_.per_consumer + 1;
    if (options_.policy == ipc::RingPolicy::drop_oldest && needed > options_.slots)
      throw Error(Errc::invalid_argument,
                  "ipc::RingProducer::add_consumer: consumer " + std::to_string(plan_.consumers().size() + 1) +
                      ", each with up to " + std::to_string(options_.per_consumer) + " slots, needs a ring of " +
                      std::to_string(needed) + " slots, and this one has " + std::to_string(options_.slots) +
                      "; make the ring with more slots, or with fewer per consumer");
    link = channel::make_link(std::move(socket), 1, channel::Borrows::nothing);
    id = plan_.add(link);
  }
  try {
    link->observe(weak_from_this());
  } catch (...) {
    remove(id);
    throw;
  }
  return id;
}

void Producer::remove(std::uint64_t id) {
  After after;
  {
    const std::scoped_lock lock(serving_);
    after.ended.reserve(plan_.waiting());  // if this was the last consumer, nobody comes back for them
    for (const auto& consumer : plan_.consumers()) {
      if (consumer.id == id) consumer.line->close();
    }
    serve_all(nullptr, after);
  }
  slots_->nudge();
}

Buffer Producer::acquire(const Stream& stream, const channel::Deadline& deadline) {
  (void)stream.state();
  const bool drops = options_.policy == ipc::RingPolicy::drop_oldest;
  for (;;) {
    const auto seen = slots_->news();
    {
      const std::scoped_lock lock(serving_);
      check("acquire");
    }
    if (auto slot = slots_->try_take(stream)) return *std::move(slot);
    // A slot that was dropped may become free only once the work on it is complete.
    while (drops && slots_->dropping() == 0 && drop_one()) {
      if (auto slot = slots_->try_take(stream)) return *std::move(slot);
    }
    if (!slots_->wait(seen, deadline)) refuse_slot();
  }
}

// The slots and what the caller may do about them.
void Producer::refuse_slot() const {
  const auto now = stats();
  std::size_t held = 0;
  for (const auto& consumer : now.consumers) held += consumer.held;
  throw Error(Errc::timed_out, "ipc::RingProducer::acquire: none of " + std::to_string(options_.slots) +
                                   " slots became free in time: " + std::to_string(now.waiting) +
                                   " frames have not been sent to all of " + std::to_string(now.consumers.size()) +
                                   " consumers, which hold " + std::to_string(held) +
                                   "; others are in use here. Wait longer, or make the ring with more slots");
}

void Producer::check(const ipc::Parcel& frame) const {
  (void)frame.buffer.location();  // throws closed
  if (!slots_->owns(frame.buffer) || frame.buffer.size() == 0)
    throw Error(Errc::invalid_argument,
                "ipc::RingProducer::publish: " + std::to_string(frame.buffer.size()) +
                    " bytes that are no slot of this ring; publish what acquire returned, or a slice of it");
  if (options_.layout && frame.buffer.size() < options_.layout->bytes_needed())
    throw Error(Errc::invalid_argument, "ipc::RingProducer::publish: " + std::to_string(frame.buffer.size()) +
                                            " bytes are less than the ring's layout needs");
  if (frame.payload.size() > ipc::RingProducer::most_payload)
    throw Error(Errc::invalid_argument, "ipc::RingProducer::publish: a payload of " +
                                            std::to_string(frame.payload.size()) + " bytes; it may have " +
                                            std::to_string(ipc::RingProducer::most_payload));
}

std::uint64_t Producer::publish(std::span<ipc::Parcel> frames, const Stream& stream) {
  for (const ipc::Parcel& frame : frames) check(frame);
  // This may wait until work has gone to the driver, so it comes before the lock.
  stream.state().throw_if_lost();
  for (const ipc::Parcel& frame : frames) {
    Slots::used_where_taken(frame.buffer, stream);
    frame.buffer.order_after_uses(stream);
  }
  std::vector<Waiting> made;
  made.reserve(frames.size());
  for (const ipc::Parcel& frame : frames) {
    frame.buffer.use_on(stream);
    made.push_back({frame.buffer.share(), encode_frame(frame.payload)});
  }
  After after;
  std::uint64_t first = 0;
  {
    const std::scoped_lock lock(serving_);
    check("publish");
    after.ended.reserve(plan_.waiting() + frames.size());  // if there are no consumers, nobody comes back for them
    first = plan_.publish(std::span(made),
                          [](Waiting& frame, std::uint64_t sequence) { number_frame(frame.payload, sequence); });
    for (ipc::Parcel& frame : frames) {
      Slots::published(frame.buffer);
      frame.buffer.close();
    }
    const Ordered ordered{stream, first};
    serve_all(&ordered, after);
  }
  return first;
}

bool Producer::drain(const channel::Deadline& deadline) {
  for (;;) {
    const auto seen = slots_->news();
    {
      const std::scoped_lock lock(serving_);
      check("drain");
      if (plan_.waiting() == 0) return true;
    }
    if (!slots_->wait(seen, deadline)) return false;
  }
}

void Producer::close() noexcept {
  Plan::Frames* unsent = nullptr;
  std::list<Plan::Consumer> consumers;
  {
    const std::scoped_lock lock(serving_);
    if (std::exchange(closed_, true)) return;
    unsent = &plan_.end(consumers);
  }
  unsent->clear();
  for (const auto& consumer : consumers) consumer.line->close();
  slots_->nudge();
}

ipc::RingStats Producer::stats() const {
  ipc::RingStats stats;
  const std::scoped_lock lock(serving_);
  stats.free = slots_->free();
  stats.waiting = plan_.waiting();
  stats.published = plan_.published();
  stats.dropped = plan_.dropped();
  for (const auto& consumer : plan_.consumers()) {
    const auto now = consumer.line->capacity();
    if (now.ended || (now.left && now.lent == 0)) continue;  // the next look forgets it
    stats.consumers.push_back({consumer.id, now.lent, now.left ? 0 : plan_.waiting_for(consumer), consumer.missed});
  }
  return stats;
}

}  // namespace weir::detail::ring
