// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "ipc/connected_socket.hpp"
#include "weir/spi/fork_link.hpp"

namespace weir::detail {

/// A connection of this process alone. A forked child closes its copy, which would keep the other end from noticing the
/// end of the parent.
class OwnSocket {
 public:
  explicit OwnSocket(spi::UniqueFd socket) noexcept : OwnSocket(ConnectedSocket(std::move(socket))) {}
  explicit OwnSocket(ConnectedSocket socket) noexcept : socket_(std::move(socket)) {}
  OwnSocket(const OwnSocket&) = delete;
  OwnSocket& operator=(const OwnSocket&) = delete;
  [[nodiscard]] int get() const noexcept { return socket_.get(); }

 private:
  friend class spi::ForkLink;
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::child) socket_.leave_to_parent();
  }

  ConnectedSocket socket_;
  spi::ForkLink link_{*this};  // the last member, as ForkLink requires
};

}  // namespace weir::detail
