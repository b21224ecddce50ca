// SPDX-License-Identifier: Apache-2.0
#pragma once
// The second process of the demo: this command line again, started with a socket.

#include <sys/types.h>

#include <string_view>

#include "commands.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::cli {

inline constexpr std::string_view peer_command = "demo-peer";
inline constexpr int peer_socket = 3;  ///< the file descriptor of the peer's end of the socket

/// A running peer. It is spawned and never forked, because a GPU driver may be loaded here.
class PeerProcess {
 public:
  explicit PeerProcess(const Program& program);
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess();  ///< closes the socket, which ends the peer, and waits for the peer

  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  [[nodiscard]] pid_t id() const noexcept { return id_; }
  /// Return the peer's one-byte answer; 0 when the peer has ended.
  [[nodiscard]] char answer() const;
  /// Close the socket and wait for the peer. True when it ended with status 0.
  bool finish() noexcept;

 private:
  spi::UniqueFd socket_;
  pid_t id_ = -1;
};

}  // namespace weir::cli
