// SPDX-License-Identifier: Apache-2.0
#pragma once
// Buffers between processes. An exporter turns a Buffer into a Descriptor, sends it over a Unix socket, and the peer
// opens the same memory as a Buffer of its own. Nothing in a descriptor is trusted.

#include <chrono>
#include <cstddef>
#include <span>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/fwd.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::ipc {

/// Name of a buffer for another process: a fixed-layout, versioned block of bytes (docs/descriptor.md) and the file
/// descriptors that belong to it. Keeps the exported memory alive only through those descriptors.
class Descriptor {
 public:
  static constexpr std::size_t size = 256;  ///< bytes on the wire

  /// Take bytes and descriptors from anywhere. Checks nothing yet; `open` does.
  Descriptor(std::span<const std::byte> bytes, std::vector<spi::UniqueFd> fds);
  Descriptor(Descriptor&&) noexcept = default;
  Descriptor& operator=(Descriptor&& other) noexcept;
  /// Files that other processes have had are closed a moment later, by a thread that they may block.
  ~Descriptor();
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::span<const spi::UniqueFd> fds() const noexcept { return fds_; }

 private:
  friend class weir::Buffer;
  friend Buffer open(Descriptor descriptor, const Stream& stream);
  void close() noexcept;
  std::vector<std::byte> bytes_;
  std::vector<spi::UniqueFd> fds_;
  std::size_t own_ = 0;  // the first so many of these were made here, and nobody can block whoever closes them
};

/// Open the memory that `descriptor` names, on the device of this process that has the same identity, usable on
/// `stream` at once: `stream` waits for the exporter's point. Both processes see each other's writes. Throws
/// corrupt_descriptor naming the field, incompatible (device, driver, version), permission_denied; then nothing was
/// opened and nothing leaked.
[[nodiscard]] Buffer open(Descriptor descriptor, const Stream& stream);

/// Send over a connected Unix-domain socket, in one message. Throws peer_gone when the other end is closed.
void send(int socket, const Descriptor& descriptor);
/// Receive what `send` sent. Throws corrupt_descriptor for anything else, peer_gone at the end of the stream,
/// timed_out after `timeout` (negative: no limit).
[[nodiscard]] Descriptor receive(int socket, std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});

}  // namespace weir::ipc
