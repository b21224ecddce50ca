// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/visitor.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <exception>
#include <span>
#include <utility>
#include <vector>

#include "ipc/bytes.hpp"
#include "ipc/channel/links.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/names/packet.hpp"
#include "ipc/one_user.hpp"
#include "ipc/packets.hpp"
#include "weir/error.hpp"

namespace weir::detail::names {
namespace {

constexpr int at_once = 16;                   // packets; a client that asks without end gets no thread for itself
constexpr std::uint32_t no_buffers_back = 1;  // the smallest window of a channel
constexpr std::uint32_t most_unread = 16;     // loans on their way, whose files are the server's until the client reads

}  // namespace

Visitor::~Visitor() {
  if (link_) link_->close();
}

std::uint32_t Visitor::wanted() const noexcept {
  if (jammed_) return 0;  // it is ready to take the packet, but the system is not
  return outgoing_.empty() ? EPOLLIN : EPOLLOUT;
}

bool Visitor::attend(bool readable) {
  for (int i = 0; i < at_once; ++i) {
    if (!flush()) return true;
    if (ends_) return false;
    if (session_.subscribed()) {
      if (auto news = session_.news()) {
        outgoing_ = std::move(*news);
        continue;
      }
    }
    if (!readable) return true;
    if (!read_one()) return true;
  }
  return true;
}

// Return whether there was a packet, which has been answered.
bool Visitor::read_one() {
  std::array<std::byte, largest_question> bytes;
  std::vector<spi::StrangerFd> files;
  files.reserve(most_sent_files);
  const auto arrival = receive_packet(socket_.get(), bytes, files);
  if (arrival.error == EAGAIN || arrival.error == EINTR) return false;
  if (arrival.bytes < 0) fail_socket("recvmsg", arrival.error);
  if (arrival.bytes == 0) throw Error(Errc::peer_gone, "names: the client is gone");
  if (arrival.cut || arrival.files_lost || !files.empty()) violated("a packet that is too large, or has files");
  carry_out(session_.take(std::span(bytes).first(static_cast<std::size_t>(arrival.bytes))));
  return true;
}

void Visitor::carry_out(Reply reply) {
  if (reply.opens_channel) {
    auto [mine, theirs] = make_sockets(SOCK_SEQPACKET, "names");
    link_ = channel::make_link(std::move(mine), no_buffers_back, channel::Borrows::nothing, user_, most_unread);
    file_ = std::move(theirs);
  }
  outgoing_ = reply.lends ? lend(reply) : std::move(reply.packet);
  ends_ = reply.ends;
}

// The client has greeted on the channel before it asks, and has room there for what it asks for.
Packet Visitor::lend(Reply& reply) {
  std::array<std::byte, sizeof reply.request> payload{};
  put(payload, 0, reply.request);
  try {
    check_one_user("ipc::Server", reply.lends->buffer.device().state(), socket_.get());
    link_->look();
    const channel::Outgoing one{&reply.lends->buffer, payload, reply.lends->access,
                                session_.mark(reply.lends->listing)};
    (void)link_->send({&one, 1}, reply.lends->stream, channel::Deadline(std::chrono::milliseconds{0}));
    return std::move(reply.packet);
  } catch (const Error& error) {
    // The error alone does not say that: the stream of the publication may have been lost with a peer of its own.
    if (link_->capacity().left || link_->hung_up()) throw;
    const bool later =
        error.code() == Errc::timed_out || error.code() == std::error_code(ETOOMANYREFS, std::generic_category());
    const Reason reason = later                                     ? Reason::busy
                          : error.code() == Errc::permission_denied ? Reason::not_allowed
                                                                    : Reason::failed;
    return Session::refuse(reply.request, reason, error.what());
  } catch (const std::bad_alloc& error) {
    return Session::refuse(reply.request, Reason::failed, error.what());
  }
}

// Return whether nothing is left to send.
bool Visitor::flush() {
  if (outgoing_.empty()) return true;
  const int file = file_.get();
  const auto sent = send_packet(socket_.get(), outgoing_, std::span(&file, file_ ? 1U : 0U), false);
  jammed_ = sent < 0 && errno == ETOOMANYREFS;
  if (sent < 0 && (errno == EAGAIN || jammed_)) return false;
  if (sent < 0) fail_socket("sendmsg", errno);
  outgoing_.clear();
  file_.reset();
  return true;
}

}  // namespace weir::detail::names
