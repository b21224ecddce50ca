// SPDX-License-Identifier: Apache-2.0
#pragma once
// Other processes of the demo: this command line again, started with a socket.

#include <sys/types.h>

#include <initializer_list>
#include <string_view>

#include "commands.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::cli {

inline constexpr std::string_view peer_command = "demo-peer", visitor_command = "demo-visitor";
inline constexpr int peer_socket = 3;  ///< the file descriptor of the peer's end of the socket

/// A running peer. It is spawned and never forked, because a GPU driver may be loaded here.
class PeerProcess {
 public:
  /// Start the program with these words, and a socket of `type` as its file `number`.
  PeerProcess(const Program& program, std::initializer_list<std::string_view> words, int type, int number);
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;
  ~PeerProcess();  ///< closes the socket, which ends the peer, and waits for the peer

  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  [[nodiscard]] spi::UniqueFd take_socket() noexcept { return std::move(socket_); }
  [[nodiscard]] pid_t id() const noexcept { return id_; }
  /// Return the peer's one-byte answer; 0 when the peer has ended.
  [[nodiscard]] char answer() const;
  /// Send the peer a signal.
  void signal(int number) const noexcept;
  /// Close the socket and wait for the peer. True when it ended with status 0.
  bool finish() noexcept { return end() == 0; }
  /// The same; return the exit status, or minus the signal that ended it.
  int end() noexcept;

 private:
  spi::UniqueFd socket_;
  pid_t id_ = -1;
};

}  // namespace weir::cli
