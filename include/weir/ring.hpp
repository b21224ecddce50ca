// SPDX-License-Identifier: Apache-2.0
#pragma once
// A ring of frames: one process fills them in shared memory, and several others read them there. Read channel.hpp
// first.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weir/access.hpp"
#include "weir/buffer.hpp"
#include "weir/channel.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/layout.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/unique_fd.hpp"
#include "weir/tensor.hpp"

namespace weir::ipc {

/// What a producer does when no slot is free.
enum class RingPolicy {
  block,       ///< wait: every consumer gets every frame, and the slowest one sets the pace
  drop_oldest  ///< take the oldest frame back that some consumer has not been sent yet; that consumer misses it
};

/// Options of a ring's producer.
struct RingOptions {
  std::size_t slots = 8;       ///< frames that there is memory for; 2 … 65 536
  std::size_t slot_bytes = 0;  ///< bytes of the largest frame; with a layout, 0 stands for what the layout needs
  RingPolicy policy = RingPolicy::block;  ///< when no slot is free
  /// Most slots that one consumer may have at a time: frames that are on their way to it, and frames that it holds.
  /// Further frames stay with the producer until the consumer gives one back. 1 … `slots`.
  std::size_t per_consumer = 2;
  /// Where the elements of a frame are in its slot, for `acquire_tensor` and `Frame::tensor`; at most 8 dimensions.
  std::optional<Layout> layout{};
  Access access = Access::read_write;  ///< what consumers may do with the slots
};

/// What one consumer of a ring has, as its producer sees it.
struct RingConsumerStats {
  std::uint64_t id = 0;      ///< what add_consumer returned
  std::size_t held = 0;      ///< slots that are on their way to it or held by it
  std::size_t waiting = 0;   ///< frames that it has not been sent yet
  std::uint64_t missed = 0;  ///< frames that were taken back, or lost, before it was sent them
};

/// What a ring's producer has at a moment.
struct RingStats {
  std::size_t free = 0;                        ///< slots that `acquire` can return at once
  std::size_t waiting = 0;                     ///< published frames that some consumer has not been sent yet
  std::uint64_t published = 0;                 ///< frames so far
  std::uint64_t dropped = 0;                   ///< frames that were taken back, or lost, so far
  std::vector<RingConsumerStats> consumers{};  ///< also those that have left and still hold something
};

/// The end of a ring that makes frames. All slots are one range of one allocation, which every consumer opens once; a
/// frame that is filled in place is never copied. Each consumer has a Channel of its own, and its connection is the
/// lease: when its process ends, all slots that it had are free again at once.
///
/// Nobody waits for a consumer, except `acquire` under RingPolicy::block, which waits for as long as its caller allows.
/// Under RingPolicy::drop_oldest, a consumer that holds its frames for ever keeps `per_consumer` slots and nothing
/// else, and add_consumer makes sure that the slots suffice: while the caller holds no other slot, `acquire` waits for
/// no consumer. The frames that were sent ahead cannot be taken back, so a slow consumer sees up to
/// RingConsumerOptions::ahead old frames before the newer ones.
///
/// Consumers can write all slots, unless the ring is made with Access::read_only. docs/ipc.md says who is trusted with
/// what.
///
/// Thread-safe. A moved-from producer can only be assigned to and destroyed.
class WEIR_API RingProducer {
 public:
  static constexpr std::size_t most_payload = Channel::most_payload - 8;  ///< bytes beside one frame

  /// Allocate the slots from `resource`, which must be exportable. Throws unsupported if it is not, and for
  /// Access::read_only where the backend cannot lend memory for reading alone (Vulkan); invalid_argument for bad
  /// options; OutOfMemory.
  RingProducer(const ResourcePtr& resource, const RingOptions& options);
  /// Take over the ring of `other`.
  RingProducer(RingProducer&& other) noexcept;
  /// Close this ring, and take over that of `other`.
  RingProducer& operator=(RingProducer&& other) noexcept;
  /// Close the ring.
  ~RingProducer();

  /// Serve the consumer at the other end of `socket` (Channel::make_sockets), beginning with the next frame that is
  /// published. Return its number. Does not wait for it. Throws invalid_argument for another sort of socket and, under
  /// drop_oldest, when `slots` is less than one more than `per_consumer` times the number of consumers; closed; and the
  /// system's error when no thread can attend to the consumer.
  std::uint64_t add_consumer(spi::UniqueFd socket);
  /// Send nothing more to the consumer. It can still receive what was sent, and gives that back as ever. Does nothing
  /// when there is no such consumer.
  void remove_consumer(std::uint64_t id);

  /// Return a free slot of `slot_bytes` bytes, usable on `stream` at once: nobody uses it any more. Its bytes are those
  /// of an earlier frame. Everything that is put on `stream` until the slot is published or closed counts as a use of
  /// it; other streams are told of by `use_on`. Closing it without publishing gives it back after these uses. Throws
  /// timed_out, naming what holds the slots, when none becomes free within `timeout`; closed.
  [[nodiscard]] Buffer acquire(const Stream& stream, std::chrono::milliseconds timeout = Channel::endless);
  /// The same as a tensor of the ring's layout. Throws invalid_argument when the ring has none.
  [[nodiscard]] Tensor acquire_tensor(const Stream& stream, std::chrono::milliseconds timeout = Channel::endless);

  /// Publish a slot, or a slice of one, as the next frame. Return its sequence number, which begins with 0. The
  /// consumers' streams wait for everything that was put on `stream` and on the stream of `acquire`, and for all
  /// recorded uses of the slot. Consumers that have room are sent the frame at once, and others as soon as they have.
  /// Waits for nobody; only for a borrowed stream it may wait as cuda::borrow says. Throws invalid_argument for a
  /// buffer that is not of this ring, has zero bytes or is smaller than the ring's layout needs, and for a payload that
  /// is too large; closed; peer_gone and device_lost when the stream, or other work on the slot, is lost. What keeps a
  /// single consumer from being sent the frame goes to the failure sink, and is tried again with the next frame. A
  /// frame whose work is lost before it was sent is reported and dropped: consumers miss it.
  std::uint64_t publish(Buffer frame, const Stream& stream, std::span<const std::byte> payload = {});
  /// The same for a tensor's slot.
  std::uint64_t publish(Tensor frame, const Stream& stream, std::span<const std::byte> payload = {});
  /// The same for several frames, with as few calls of the system as possible. Return the number of the first one. The
  /// buffers are closed afterwards; a call that throws leaves them as they are.
  std::uint64_t publish(std::span<Parcel> frames, const Stream& stream);

  /// Wait until every consumer has been sent every frame, or has left. Return false if that is not so after `timeout`.
  bool drain(std::chrono::milliseconds timeout = Channel::endless);
  /// Acquire, publish and send nothing any more; frames that were not sent are lost. Calls that wait in other threads
  /// throw closed. What consumers hold stays valid until they give it back.
  void close() noexcept;

  [[nodiscard]] const std::optional<Layout>& layout() const noexcept;  ///< as the options had it
  [[nodiscard]] std::size_t slot_bytes() const noexcept;               ///< of what `acquire` returns
  [[nodiscard]] RingStats stats() const;                               ///< of the ring and of each consumer

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// What a consumer receives. Closing the buffer, and all tensors over it, gives the slot back once all work on it is
/// complete.
struct WEIR_API Frame {
  Buffer buffer{};                         ///< the slot, or the part of it that was published
  std::uint64_t sequence = 0;              ///< number of the frame, counted by the producer
  std::uint64_t missed = 0;                ///< frames that this consumer missed right before this one
  std::vector<std::byte> payload{};        ///< of the producer's user, at most RingProducer::most_payload bytes
  std::shared_ptr<const Layout> layout{};  ///< of the ring; null when it has none

  /// Return a tensor of the ring's layout over the frame. Throws invalid_argument when the ring has none.
  [[nodiscard]] Tensor tensor() const;
};

/// Options of a ring's consumer.
struct RingConsumerOptions {
  /// Frames that the producer may send before they are asked for; 1 … 65 536. The producer's per_consumer limits them,
  /// too. With 1 a slow consumer gets frames that are as new as possible; from 4 on, each costs fewer calls of the
  /// system.
  std::uint32_t ahead = 4;
};

/// An end of a ring that receives frames. One thread at a time may call `next`; `close` may be called at any time.
class WEIR_API RingConsumer {
 public:
  /// Speak over a socket whose other end was given to RingProducer::add_consumer. Throws invalid_argument for another
  /// sort of socket, and for bad options.
  explicit RingConsumer(spi::UniqueFd socket, const RingConsumerOptions& options = {});

  /// Open the ring's memory on the device of `stream`, if that device can open it, and learn its layout. The first
  /// `next` does so otherwise. Throws what `next` throws.
  void open(const Stream& stream, std::chrono::milliseconds timeout = Channel::endless);
  /// Return the next frame, usable on `stream` at once: `stream` waits for the producer's work on it. Throws timed_out;
  /// peer_gone once the producer has ended or closed the ring, and what it sent before has been received;
  /// corrupt_descriptor when it is no ring's producer or broke the protocol; and what Channel::receive throws for
  /// memory that cannot be opened. Such a frame counts as missed.
  [[nodiscard]] Frame next(const Stream& stream, std::chrono::milliseconds timeout = Channel::endless);
  /// Receive nothing any more. Frames that are held stay valid.
  void close() noexcept { channel_.close(); }
  /// Return the layout of the frames; null when the ring has none, and before it is open.
  [[nodiscard]] const std::shared_ptr<const Layout>& layout() const noexcept { return layout_; }

 private:
  Channel channel_;
  bool opened_ = false;
  std::uint64_t expected_ = 0;
  std::shared_ptr<const Layout> layout_;
};

}  // namespace weir::ipc
