// SPDX-License-Identifier: Apache-2.0
#pragma once
// A client's connection to a holder: packets and files, until a moment.

#include <span>
#include <string>
#include <vector>

#include "ipc/channel/deadline.hpp"
#include "ipc/hold/messages.hpp"
#include "ipc/own_socket.hpp"
#include "weir/held_set.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail::hold {

using channel::Deadline;

class Connection {
 public:
  /// Connect, and exchange greetings, no later than both limits say. Throws as SetWriter's constructor.
  Connection(const std::string& path, const std::string& set, Role role, const ipc::HoldOptions& options,
             const Deadline& deadline);

  // Both throw timed_out and peer_gone. Afterwards the connection is of no use when send() threw, and still is when
  // receive() timed out.
  void send(Bytes packet, std::span<const int> files, const Deadline& deadline);
  /// Return the next packet, valid until the next call, and its files.
  [[nodiscard]] Bytes receive(std::vector<spi::StrangerFd>& files, const Deadline& deadline);
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }

 private:
  Connection(const std::string& path, const std::string& set, Role role, bool other_users, const Deadline& soon);

  OwnSocket socket_;
  std::string path_;
  Packet packet_;
};

/// Throw what a refusal of the holder means.
[[noreturn]] void throw_refusal(const Refused& refusal);

/// Throw invalid_argument, in the name of `operation`, unless this is a name as sets and tensors have it.
void check_name(const char* operation, std::string_view name);

}  // namespace weir::detail::hold
