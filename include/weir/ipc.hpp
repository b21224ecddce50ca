// SPDX-License-Identifier: Apache-2.0
#pragma once
// Buffers shared between processes. An exporter turns a Buffer into a Descriptor and sends it over a Unix socket. The
// peer opens the same memory as a Buffer of its own. Nothing in a descriptor is trusted.

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/spi/unique_fd.hpp"

/// Buffers shared between processes.
namespace weir::ipc {

/// Name of a buffer for another process: a versioned block of bytes (docs/descriptor.md) and the file descriptors that
/// belong to it. It keeps the exported memory alive only through those file descriptors.
class WEIR_API Descriptor {
 public:
  /// The least number of bytes on the wire. Memory in several parts (of paged pools) has more: send all of bytes().
  static constexpr std::size_t size = 256;

  /// Take bytes and file descriptors from any source. Nothing is checked here; `open` checks them.
  Descriptor(std::span<const std::byte> bytes, std::vector<spi::UniqueFd> fds);
  /// Take over the bytes and the files of the other descriptor.
  Descriptor(Descriptor&&) noexcept = default;
  /// Close the files as the destructor does, and take over the bytes and the files of `other`.
  Descriptor& operator=(Descriptor&& other) noexcept;
  /// Close the files. Files that came from other processes are closed a moment later, on a thread of weir that such a
  /// file may block.
  ~Descriptor();
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }  ///< to send as they are
  [[nodiscard]] std::span<const spi::UniqueFd> fds() const noexcept { return fds_; }  ///< to send beside them, in order

 private:
  friend class weir::Buffer;
  friend Buffer open(Descriptor descriptor, const Stream& stream);
  void close() noexcept;
  std::vector<std::byte> bytes_;
  std::vector<spi::UniqueFd> fds_;
  std::size_t own_ = 0;  // how many of fds_, from the first on, were made here: closing these cannot block
};

/// Open the memory that `descriptor` names, on the device of this process that has the same identity. The buffer is
/// usable on `stream` at once, because `stream` waits for the exporter's point. Both processes see each other's writes.
/// Throws corrupt_descriptor, naming the field; incompatible for another device, driver or version; permission_denied;
/// out_of_memory when this process or the driver is short of what opening takes; peer_gone when the exporter has ended
/// before its work was complete. A call that throws has opened nothing and leaked nothing. If the exporter ends later,
/// before that work is complete, `stream` is lost with peer_gone.
[[nodiscard]] WEIR_API Buffer open(Descriptor descriptor, const Stream& stream);

/// Send `descriptor` over a connected Unix-domain socket, in one message. Waits while the socket has no room, whether
/// or not it blocks. The descriptor may be sent again, to processes that trust each other: each of them could break
/// what tells the others that the work is complete. Throws timed_out after `timeout`, peer_gone when the other end is
/// closed, and the system's error. A negative `timeout` means no limit. When this throws on a socket of type
/// SOCK_STREAM, part of the message may be sent: close the socket then.
WEIR_API void send(int socket, const Descriptor& descriptor,
                   std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});
/// Receive a descriptor that `send` sent. Throws corrupt_descriptor for a message of another form (`open` checks the
/// bytes), peer_gone when the other end has closed the socket, and timed_out after `timeout`. A negative `timeout`
/// means no limit.
[[nodiscard]] WEIR_API Descriptor receive(int socket,
                                          std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});

}  // namespace weir::ipc
