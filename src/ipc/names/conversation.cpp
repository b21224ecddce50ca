// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/conversation.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "base/forks.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/names/address.hpp"
#include "ipc/names/packet.hpp"
#include "ipc/packets.hpp"
#include "ipc/peer.hpp"
#include "weir/error.hpp"

namespace weir::detail::names {
namespace {

[[noreturn]] void fail(const Refused& refused) {
  const auto code = [&] {
    switch (refused.reason) {
      case Reason::unknown_name: return Errc::invalid_argument;
      case Reason::too_many_loans:
      case Reason::too_many_clients:
      case Reason::not_allowed: return Errc::permission_denied;
      case Reason::version: return Errc::incompatible;
      default: return Errc::unsupported;
    }
  }();
  throw Error(code, "ipc::Client: the server refused: " + refused.text);
}

}  // namespace

Conversation::Conversation(const std::string& path, std::string pattern, const channel::Deadline& deadline)
    : process_(fork_generation), socket_(connect_to(path, deadline)), incoming_(largest_answer) {
  const bool subscribes = !pattern.empty();
  say(Hello{protocol_version, std::move(pattern)}, deadline);
  const Answer first = hear(deadline);
  if (const auto* const refused = std::get_if<Refused>(&first)) fail(*refused);
  const auto* const welcome = std::get_if<Welcome>(&first);
  if (!welcome) violated("no greeting");
  if (welcome->version != protocol_version)
    throw Error(Errc::incompatible, "ipc::Client: the server speaks version " + std::to_string(welcome->version) +
                                        " of the protocol, this process version " + std::to_string(protocol_version));
  if (files_.size() != (subscribes ? 0U : 1U)) violated(std::to_string(files_.size()) + " files beside the greeting");
}

void Conversation::check_process() const {
  if (process_ != fork_generation)
    throw Error(Errc::unsupported, "ipc::Client: the parent of this process has the connection");
}

void Conversation::end() noexcept {
  if (process_ == fork_generation) (void)::shutdown(socket_.get(), SHUT_RDWR);
}

spi::UniqueFd Conversation::take_channel() {
  if (!is_unix_socket(files_.front().get(), SOCK_SEQPACKET)) violated("its channel is not a socket");
  auto socket = files_.front().trust();
  files_.clear();
  return socket;
}

Answer Conversation::ask(const Question& question, const channel::Deadline& deadline) {
  say(question, deadline);
  for (;;) {
    Answer answer = hear(deadline);
    if (!requests_.is_answered_by(answer)) {
      deadline.check("the server answers earlier questions only", "ipc::Client");
      continue;
    }
    const auto* const refused = std::get_if<Refused>(&answer);
    if (refused && refused->reason != Reason::busy) fail(*refused);
    return answer;
  }
}

void Conversation::say(const Question& question, const channel::Deadline& deadline) {
  check_process();
  const Packet packet = encode(question);
  while (send_packet(socket_.get(), packet, {}, false) < 0) {
    // A server that refused has closed the connection, and what it said is still to be read.
    if (errno == EPIPE || errno == ECONNRESET) return;
    if (errno != EAGAIN) fail_socket("sendmsg", errno);
    await(POLLOUT, deadline);
  }
}

Answer Conversation::hear(const channel::Deadline& deadline) {
  check_process();
  bool reset = false;
  for (;;) {
    std::vector<spi::StrangerFd> files;
    files.reserve(most_sent_files);
    const auto arrival = receive_packet(socket_.get(), incoming_, files);
    if (arrival.error == EINTR) continue;
    if (arrival.error == ECONNRESET && !std::exchange(reset, true)) continue;  // said once, before what is still there
    if (arrival.error == EAGAIN) {
      await(POLLIN, deadline);
      continue;
    }
    if (arrival.bytes < 0) fail_socket("recvmsg", arrival.error);
    if (arrival.bytes == 0) throw Error(Errc::peer_gone, "ipc::Client: the server is gone");
    if (arrival.files_lost) fail_lost_files("ipc::Client");
    if (arrival.cut) violated("a packet that is too large");
    Answer answer = decode_answer(std::span(incoming_).first(static_cast<std::size_t>(arrival.bytes)));
    if (std::holds_alternative<Welcome>(answer)) {
      files_ = std::move(files);
    } else if (!files.empty()) {
      violated("a file that nobody asked for");
    }
    return answer;
  }
}

void Conversation::await(short events, const channel::Deadline& deadline) const {
  if (!wait_for(socket_.get(), events, deadline))
    throw Error(Errc::timed_out, "ipc::Client: the server did not answer in time");
}

}  // namespace weir::detail::names
