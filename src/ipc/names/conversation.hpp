// SPDX-License-Identifier: Apache-2.0
#pragma once
// The client's half of a connection: questions out, answers in.

#include <cstdint>
#include <string>
#include <vector>

#include "ipc/channel/deadline.hpp"
#include "ipc/names/messages.hpp"
#include "ipc/names/requests.hpp"
#include "ipc/own_socket.hpp"
#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail::names {

/// Not thread-safe.
class Conversation {
 public:
  /// Connect and greet. With a pattern, the connection is for news.
  Conversation(const std::string& path, std::string pattern, const channel::Deadline& deadline);

  /// Return the numbers of the questions.
  [[nodiscard]] Requests& requests() noexcept { return requests_; }
  /// Send the question, which has the last number of requests(), and return its answer. Throws what a refusal means,
  /// but for that the server is busy.
  [[nodiscard]] Answer ask(const Question& question, const channel::Deadline& deadline);
  /// Return the next packet. Throws peer_gone, timed_out, corrupt_descriptor.
  [[nodiscard]] Answer hear(const channel::Deadline& deadline);
  /// End the connection. A call that waits in another thread throws peer_gone.
  void end() noexcept;
  /// Return this end of the channel, once.
  [[nodiscard]] spi::UniqueFd take_channel();

 private:
  void say(const Question& question, const channel::Deadline& deadline);
  void await(short events, const channel::Deadline& deadline) const;
  void check_process() const;

  const std::uint32_t process_;
  OwnSocket socket_;
  Requests requests_;
  std::vector<spi::StrangerFd> files_;
  std::vector<std::byte> incoming_;
};

}  // namespace weir::detail::names
