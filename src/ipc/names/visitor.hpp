// SPDX-License-Identifier: Apache-2.0
#pragma once
// One connection of a server: its sockets around its session.

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "ipc/channel/deadline.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/names/session.hpp"
#include "ipc/own_socket.hpp"

namespace weir::detail::names {

/// Never waits. Has at most one packet that the client has not taken, and reads nothing before it is gone.
class Visitor {
 public:
  Visitor(ConnectedSocket socket, uid_t user, const Session& session, const channel::Deadline& must_greet_by) noexcept
      : socket_(std::move(socket)), user_(user), session_(session), must_greet_by_(must_greet_by) {}
  ~Visitor();
  Visitor(const Visitor&) = delete;
  Visitor& operator=(const Visitor&) = delete;

  /// Read what has come, answer it, and tell news. Return whether the connection goes on. Throws what broke it.
  [[nodiscard]] bool attend(bool readable);
  /// Return the events of the socket to wait for, as epoll has them.
  [[nodiscard]] std::uint32_t wanted() const noexcept;
  /// Return whether the system has no room for a file that is to go to the client. attend() tries again.
  [[nodiscard]] bool jammed() const noexcept { return jammed_; }

  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  [[nodiscard]] const Session& session() const noexcept { return session_; }
  [[nodiscard]] const channel::Deadline& must_greet_by() const noexcept { return must_greet_by_; }

 private:
  [[nodiscard]] bool read_one();
  void carry_out(Reply reply);
  [[nodiscard]] Packet lend(Reply& reply);
  [[nodiscard]] bool flush();

  OwnSocket socket_;
  const uid_t user_;  // of the client
  Session session_;
  const channel::Deadline must_greet_by_;
  std::shared_ptr<channel::Link> link_;
  Packet outgoing_;     // not empty: the socket has not taken it
  spi::UniqueFd file_;  // beside it
  bool ends_ = false;   // behind it
  bool jammed_ = false;
};

}  // namespace weir::detail::names
