// SPDX-License-Identifier: Apache-2.0
#pragma once
// A connection over which two processes lend each other memory. The first buffer of a segment takes the segment's file
// across, and every further one is a few bytes. Read ipc.hpp first.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "weir/access.hpp"
#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::ipc {

/// A buffer on its way to another process, or from one.
struct Parcel {
  Buffer buffer;                       ///< the memory; the receiver's handle is its own
  std::vector<std::byte> payload{};    ///< of the user's, at most Channel::most_payload bytes
  Access access = Access::read_write;  ///< what the receiver may do with the memory
};

/// Options of a channel.
struct ChannelOptions {
  /// How many buffers the peer may send ahead, before somebody here receives them; 1 … 65 536. Each may bring a file, so
  /// a larger window needs a higher limit of open files.
  std::uint32_t window = 256;
};

/// What a channel holds at a moment.
struct ChannelStats {
  std::size_t lent = 0;      ///< buffers that the peer has not given back
  std::size_t borrowed = 0;  ///< buffers of the peer that this process has not closed
  std::size_t waiting = 0;   ///< buffers of the peer that nobody has received yet
  std::size_t known = 0;     ///< segments of this process that the peer can open, or has open
  std::size_t opened = 0;    ///< segments of the peer of which this process was told
  std::int32_t process = 0;  ///< id of the peer's process, as the kernel says; 0 while or where it is not known
};

/// One end of a connection between two processes. Each end lends buffers to the other, any number at a time.
///
/// A buffer that was sent keeps its memory until the peer has closed its last handle and all its work on the memory is
/// complete. **The connection is the lease**: when the other process dies, everything that it borrowed comes back at
/// once. Nobody waits for a peer that is slow, stopped or hostile, except in a call that names a time limit. A peer
/// that breaks the protocol is cut off, as if it had died.
///
/// Thread-safe. A moved-from channel can only be assigned to and destroyed.
class WEIR_API Channel {
 public:
  static constexpr std::size_t most_payload = 256;        ///< bytes beside one buffer
  static constexpr std::chrono::milliseconds endless{-1};  ///< no time limit

  /// Speak over a connected Unix-domain socket of type SOCK_SEQPACKET, which nobody else uses. The process at the other
  /// end makes a channel of its end. Throws invalid_argument for another sort of socket, and for bad options.
  explicit Channel(spi::UniqueFd socket, const ChannelOptions& options = {});
  /// Take over the connection of `other`.
  Channel(Channel&& other) noexcept;
  /// Close this channel, and take over the connection of `other`.
  Channel& operator=(Channel&& other) noexcept;
  /// Close the channel.
  ~Channel();

  /// Make two connected sockets, of which one goes to another process: inherited, or sent.
  [[nodiscard]] static std::pair<spi::UniqueFd, spi::UniqueFd> make_sockets();

  /// Lend `buffer` to the peer, whose stream waits for everything that was put on `stream` and for all recorded uses of
  /// the buffer. The buffer may be closed right afterwards. Throws unsupported for memory that was not made exportable,
  /// for a buffer in more than 250 pages of a paged pool, and when the peer waits for 512 other streams;
  /// invalid_argument for a payload that is too large and for zero bytes; timed_out when the peer makes no room within
  /// `timeout`; peer_gone; permission_denied for memory of a CPU Vulkan driver when the peer is another user's; closed;
  /// and the system's error when the thread that takes memory back cannot be started. A call that throws has sent
  /// nothing.
  ///
  /// With Access::read_only, the peer's buffer is read-only. Throws unsupported where the backend cannot lend memory
  /// for reading alone (Vulkan). One buffer may be sent with both kinds of access. Memory that is read-only here is
  /// read-only there.
  void send(const Buffer& buffer, const Stream& stream, std::span<const std::byte> payload = {},
            std::chrono::milliseconds timeout = endless, Access access = Access::read_write);
  /// The same for several buffers, with as few calls of the system as possible. Return how many were sent, which
  /// are fewer than all only if `timeout` passed. Throws timed_out if none was sent by then. When this throws any other
  /// error, the first ones may have been sent.
  std::size_t send(std::span<const Parcel> parcels, const Stream& stream, std::chrono::milliseconds timeout = endless);

  /// Return the next buffer that the peer sent, usable on `stream` at once, because `stream` waits for the peer's work.
  /// Memory is opened on the device of `stream` if that device can open it. A `timeout` of 0 takes what is there. Throws
  /// timed_out; peer_gone once the peer has ended and what it sent before has been received; corrupt_descriptor when it
  /// broke the protocol; and what ipc::open throws for memory that cannot be opened here, which is given back by that.
  ///
  /// If the peer ends before its work on the buffer is complete, that work will never be. A call that finds this out
  /// throws peer_gone for that buffer alone, which is given back, and leaves `stream` as it is. A stream that waits
  /// already is lost with peer_gone: give buffers of a peer that may end a stream of their own.
  [[nodiscard]] Parcel receive(const Stream& stream, std::chrono::milliseconds timeout = endless);

  /// Send and receive nothing any more. What was lent and borrowed stays valid until it is given back, and the
  /// connection lasts until then. Calls that wait in other threads throw closed.
  void close() noexcept;
  /// Return what both directions have. Throws unsupported in a forked child.
  [[nodiscard]] ChannelStats stats() const;

 private:
  friend class RingConsumer;
  using Learns = std::function<bool(std::span<const std::byte> payload)>;
  /// receive(), in which `learns` gets the payload before the memory is opened, and returns true.
  [[nodiscard]] Parcel receive(const Stream& stream, std::chrono::milliseconds timeout, const Learns& learns);

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace weir::ipc
