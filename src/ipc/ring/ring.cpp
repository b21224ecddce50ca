// SPDX-License-Identifier: Apache-2.0
// The public face of a ring's producer, and the check of its options.
#include "weir/ring.hpp"

#include <new>
#include <string>
#include <utility>

#include "base/refuse.hpp"
#include "ipc/exporting.hpp"
#include "ipc/ring/greeting.hpp"
#include "ipc/ring/producer.hpp"
#include "weir/error.hpp"

namespace weir::ipc {
namespace {

constexpr std::size_t most_slots = 65536;

RingOptions checked(const ResourcePtr& resource, RingOptions options) {
  if (!resource) detail::refuse("ipc::RingProducer", "no resource");
  if (!resource->is_exportable())
    throw Error(Errc::unsupported, "ipc::RingProducer: memory of " + resource->name() +
                                       " was not made exportable; make the resource with exportable = true");
  detail::check_access("ipc::RingProducer", resource->device().state(), options.access);
  if (options.slots < 2 || options.slots > most_slots)
    detail::refuse("ipc::RingProducer",
                   std::to_string(options.slots) + " slots; a ring may have 2 to " + std::to_string(most_slots));
  if (options.per_consumer == 0 || options.per_consumer > options.slots)
    detail::refuse("ipc::RingProducer", std::to_string(options.per_consumer) +
                                            " slots per consumer; it may have 1 to all " +
                                            std::to_string(options.slots));
  if (options.layout) {
    const std::size_t dimensions = options.layout->shape.size();
    if (dimensions > detail::ring::most_dimensions || options.layout->strides.size() != dimensions)
      detail::refuse("ipc::RingProducer", "a layout of " + std::to_string(dimensions) + " dimensions and " +
             std::to_string(options.layout->strides.size()) + " strides; it may have 8 of each");
    const std::size_t needed = options.layout->bytes_needed();
    if (options.slot_bytes == 0) options.slot_bytes = needed;
    if (options.slot_bytes < needed)
      detail::refuse("ipc::RingProducer", "a layout of " + std::to_string(needed) + " bytes in slots of " +
                                              std::to_string(options.slot_bytes));
  }
  if (options.slot_bytes == 0)
    detail::refuse("ipc::RingProducer", "slots of 0 bytes; say slot_bytes, or a layout with elements");
  return options;
}

}  // namespace

struct RingProducer::State {
  explicit State(std::shared_ptr<detail::ring::Producer> made) : ring(std::move(made)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // In a forked child, threads that held the ring's locks do not exist: what the child has of it is left alone.
  ~State() {
    if (ring->inherited()) {
      never_freed = new (std::nothrow) std::shared_ptr(ring);
    } else {
      ring->close();
    }
  }
  /// Throws unsupported in a forked child.
  [[nodiscard]] detail::ring::Producer& get() const {
    if (ring->inherited()) throw Error(Errc::unsupported, "ipc::RingProducer: the parent of this process has the ring");
    return *ring;
  }

  const std::shared_ptr<detail::ring::Producer> ring;
  static inline void* never_freed = nullptr;
};

RingProducer::RingProducer(const ResourcePtr& resource, const RingOptions& options) {
  auto good = checked(resource, options);
  state_ = std::make_shared<State>(std::make_shared<detail::ring::Producer>(*resource, std::move(good)));
}

RingProducer::RingProducer(RingProducer&&) noexcept = default;
RingProducer& RingProducer::operator=(RingProducer&&) noexcept = default;
RingProducer::~RingProducer() = default;

std::uint64_t RingProducer::add_consumer(spi::UniqueFd socket) {
  spi::StrangerFd taken(std::move(socket));  // the peer may have sent something
  return state_->get().add(taken);
}

void RingProducer::remove_consumer(std::uint64_t id) { state_->get().remove(id); }

Buffer RingProducer::acquire(const Stream& stream, std::chrono::milliseconds timeout) {
  return state_->get().acquire(stream, detail::channel::Deadline(timeout));
}

Tensor RingProducer::acquire_tensor(const Stream& stream, std::chrono::milliseconds timeout) {
  if (!layout())
    detail::refuse("ipc::RingProducer",
                   "acquire_tensor: the ring has no layout; use acquire, or name one in the options");
  return {acquire(stream, timeout), *layout()};
}

std::uint64_t RingProducer::publish(Buffer frame, const Stream& stream, std::span<const std::byte> payload) {
  Parcel one{std::move(frame), {payload.begin(), payload.end()}};
  return publish(std::span(&one, 1), stream);
}

std::uint64_t RingProducer::publish(Tensor frame, const Stream& stream, std::span<const std::byte> payload) {
  return publish(std::move(frame.buffer()), stream, payload);
}

std::uint64_t RingProducer::publish(std::span<Parcel> frames, const Stream& stream) {
  return state_->get().publish(frames, stream);
}

bool RingProducer::drain(std::chrono::milliseconds timeout) {
  return state_->get().drain(detail::channel::Deadline(timeout));
}

void RingProducer::close() noexcept {
  if (state_ && !state_->ring->inherited()) state_->ring->close();
}

const std::optional<Layout>& RingProducer::layout() const noexcept { return state_->ring->options().layout; }

std::size_t RingProducer::slot_bytes() const noexcept { return state_->ring->slot_bytes(); }

RingStats RingProducer::stats() const { return state_->get().stats(); }

}  // namespace weir::ipc
