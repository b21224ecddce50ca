// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sockets that have a path.

#include <sys/types.h>

#include <string>

#include "ipc/channel/deadline.hpp"
#include "ipc/listening_socket.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail::names {

/// A socket that listens at a path, which is removed at the end if it is still this one's.
class Listener {
 public:
  /// `everybody` may connect, or the user of this process only. Throws.
  Listener(const std::string& path, bool everybody);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  [[nodiscard]] int get() const noexcept { return socket_.get(); }
  void end() noexcept { socket_.end(); }  ///< listen no more
  void remove() noexcept;                 ///< the path

 private:
  friend class spi::ForkLink;
  // The child's copy would let clients connect to a server that is gone. The path is the parent's.
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::child) socket_.leave_to_parent();
  }

  const std::string path_;
  ListeningSocket socket_;
  dev_t device_ = 0;
  ino_t file_ = 0;
  spi::ForkLink link_{*this};  // the last member, as ForkLink requires
};

/// Connect to the listener at a path. The socket does not block. Throws peer_gone when nobody listens there,
/// permission_denied, timed_out, and the error of the operating system.
[[nodiscard]] spi::UniqueFd connect_to(const std::string& path, const channel::Deadline& deadline);

}  // namespace weir::detail::names
