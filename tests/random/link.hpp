// SPDX-License-Identifier: Apache-2.0
#pragma once
// The socket between two processes that play one program: descriptors and meetings go over it, bytes do not.

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>

#include "weir/ipc.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test::random {

/// Thrown where this process learns that the other one failed.
struct PeerFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Link {
 public:
  explicit Link(int socket) : socket_(socket) {}

  void send(std::uint64_t parcel, const ipc::Descriptor& descriptor);
  /// Wait for that parcel; others that come before it are kept.
  [[nodiscard]] ipc::Descriptor receive(std::uint64_t parcel);
  void send_socket(std::uint64_t channel, spi::UniqueFd socket);
  /// Wait for the socket of that channel.
  [[nodiscard]] spi::UniqueFd receive_socket(std::uint64_t channel);
  /// Wait until the other process is dead. What it sent before is kept.
  void await_death();
  /// Wait until the other process ends, and throw what it says if it fails.
  void await_failure();
  /// Wait until the other process stands at the same place.
  void meet(std::size_t place);
  /// Drop what came and was not asked for: the next program begins.
  void forget() {
    parcels_.clear();
    sockets_.clear();
  }
  /// Tell the other process, if it is still there.
  void fail(const std::string& why) noexcept;

 private:
  void say(const std::string& line);
  std::string next();
  std::string read();  ///< empty when the other process is gone

  int socket_;
  std::map<std::uint64_t, ipc::Descriptor> parcels_;
  std::map<std::uint64_t, ipc::Descriptor> sockets_;  // each is the file of a descriptor
};

/// One text of any length over a stream socket.
void write_text(int socket, const std::string& text);
/// Empty at the end of the stream.
[[nodiscard]] std::string read_text(int socket);

}  // namespace weir::test::random
