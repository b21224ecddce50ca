// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "ipc/connected_socket.hpp"
#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

/// A socket that listens and does not block. Whoever may connect can send files before the connection is accepted, and
/// choose some whose close blocks. These would be closed with the socket. So what has not been accepted by then is
/// accepted first, and hung up.
class ListeningSocket {
 public:
  ListeningSocket() noexcept = default;
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;
  ~ListeningSocket() { end(); }

  /// Take over `socket`, which listens or will.
  void take(spi::UniqueFd socket) noexcept { socket_ = std::move(socket); }
  [[nodiscard]] int get() const noexcept { return socket_.get(); }
  /// Listen no more.
  void end() noexcept {
    if (!socket_) return;
    (void)::shutdown(socket_.get(), SHUT_RDWR);  // nobody can connect any more
    for (bool some = true; some;) {
      const ConnectedSocket left(spi::UniqueFd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
      some = left || errno == EINTR || errno == ECONNABORTED;
    }
    socket_.reset();  // there may have been no file for a connection
  }
  /// In a forked child: close its copy, which is not the last one.
  void leave_to_parent() noexcept { (void)socket_.trust(); }

 private:
  spi::StrangerFd socket_;
};

}  // namespace weir::detail
