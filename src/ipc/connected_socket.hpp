// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <utility>

#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

/// An end of a connection to another process. Files that the peer has sent and nobody has read are closed with the
/// socket, and the peer may have chosen some whose close blocks. So the connection is hung up at once, and a socket
/// that still has something to read is closed on a thread that may block.
class ConnectedSocket {
 public:
  ConnectedSocket(spi::UniqueFd socket) noexcept  // NOLINT(google-explicit-constructor): no harm in it
      : socket_(std::move(socket)) {}
  ConnectedSocket(ConnectedSocket&&) noexcept = default;
  ConnectedSocket& operator=(ConnectedSocket&&) = delete;
  ~ConnectedSocket() {
    hang_up();
    if (socket_ && holds_nothing()) (void)socket_.trust();  // closed here
  }

  [[nodiscard]] int get() const noexcept { return socket_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(socket_); }
  /// Let both sides notice the end. What the peer was sent before, it can still read.
  void hang_up() const noexcept {
    if (socket_) (void)::shutdown(socket_.get(), SHUT_RDWR);
  }
  /// In a forked child: close its copy, which is not the last one. The connection remains the parent's.
  void leave_to_parent() noexcept { (void)socket_.trust(); }

 private:
  /// Return whether nothing is left to read, which stays so once the connection is hung up. An empty packet reads like
  /// the end, unless it has credentials for which there is no room.
  [[nodiscard]] bool holds_nothing() const noexcept {
    const int yes = 1;
    if (::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0) return false;
    msghdr message{};
    return ::recvmsg(socket_.get(), &message, MSG_PEEK | MSG_DONTWAIT) == 0 && (message.msg_flags & MSG_CTRUNC) == 0;
  }

  spi::StrangerFd socket_;
};

}  // namespace weir::detail
