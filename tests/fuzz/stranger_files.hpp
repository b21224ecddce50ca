// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files that a hostile process could put beside a descriptor.

#include <cstdint>
#include <vector>

#include "weir/spi/unique_fd.hpp"

namespace weir::fuzz {

/// What comes in the place of the exporter's file; the order is part of the corpus.
enum class Stranger : std::uint8_t {
  genuine,        ///< a duplicate of the exporter's
  sealed,         ///< a memfd of the size asked for, sealed as it must be
  sealed_larger,  ///< … one byte more
  sealed_write,   ///< … also against writing
  sealed_shrink,  ///< … against shrinking only
  unsealed,
  read_only,  ///< sealed, opened for reading only
  null_device,
  directory,
  pipe,
  event_fd,
  epoll,
  regular_file,
  missing,       ///< -1
  socket_ready,  ///< stream socket whose other end has sent a byte
  socket_late,   ///< … sends it in `settle`
  socket_gone,   ///< … has hung up
  socket_datagram,
  socket_listening,
  pipe_writes,  ///< the write end of a pipe that is read
  pipe_both,    ///< … opened for reading, too
  count,
};

/// The files of one descriptor, and the other ends of its sockets and pipes.
class Strangers {
 public:
  /// Open one. `bytes` is the size of a memfd.
  spi::UniqueFd open(Stranger kind, const spi::UniqueFd& genuine, std::uint64_t bytes);
  /// Whether a socket among them never says that the memory is ready.
  [[nodiscard]] bool never_ready() const noexcept { return never_ready_; }
  /// Let the late sockets speak.
  void settle();
  /// Block until nobody else holds the other end of any of them; false when that takes more than 10 s.
  [[nodiscard]] bool released();

 private:
  spi::UniqueFd socket(Stranger kind);
  spi::UniqueFd pipe(int flags);

  struct Socket {
    spi::UniqueFd end;
    bool late;
  };
  std::vector<Socket> sockets_;
  std::vector<spi::UniqueFd> readers_;
  bool never_ready_ = false;
};

}  // namespace weir::fuzz
