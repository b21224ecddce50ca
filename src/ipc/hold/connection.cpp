// SPDX-License-Identifier: Apache-2.0
#include "ipc/hold/connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "ipc/packets.hpp"
#include "ipc/peer.hpp"
#include "ipc/text.hpp"
#include "weir/error.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail::hold {
namespace {

[[noreturn]] void time_out(const std::string& path) {
  throw Error(Errc::timed_out, "held set: the holder at '" + path + "' did not do that in time");
}

[[noreturn]] void nobody_there(const std::string& path, const std::string& why) {
  throw Error(Errc::peer_gone, "held set: no holder at '" + path + "': " + why + "; start one with: weir hold " + path);
}

// It may live: it cuts off those for whom it lacks memory or files.
[[noreturn]] void hung_up(const std::string& path) {
  throw Error(Errc::peer_gone, "held set: lost the holder at '" + path +
                                   "': it hung up, because it has ended, or could not serve this process and has said "
                                   "why where it runs; if it has ended, start one with: weir hold " +
                                   path);
}

void wait(int socket, short events, const Deadline& deadline, const std::string& path) {
  if (!wait_for(socket, events, deadline)) time_out(path);
}

spi::UniqueFd connect_to(const std::string& path, const Deadline& deadline) {
  const sockaddr_un address = address_of("held set", path);
  spi::UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) fail_socket("socket", errno);
  const int error = connect_by(socket.get(), address, deadline);
  if (error == 0) return socket;
  if (error == EAGAIN) time_out(path);
  const std::error_code code(error, std::generic_category());
  if (error == ENOENT || error == ECONNREFUSED) nobody_there(path, code.message());
  if (error == EACCES || error == EPERM)
    throw Error(Errc::permission_denied, "held set: the socket '" + path + "' is another user's");
  throw Error(code, "held set: connect to '" + path + "': " + code.message());
}

Deadline sooner(const Deadline& one, const Deadline& other) noexcept {
  if (one.endless()) return other;
  return other.endless() || one.at() < other.at() ? one : other;
}

struct Limit {
  const char* of;
  const char* advice;
};

Limit limit_of(Why why) noexcept {
  switch (why) {
    case Why::connections: return {"connections", "end writers and readers that nobody needs"};
    case Why::sets: return {"sets", "remove sets that nobody needs"};
    case Why::tensors: return {"tensors of one set", "make several sets of them"};
    case Why::bytes: return {"bytes of names and layouts", "remove sets that nobody needs"};
    case Why::files: return {"files of memory", "remove sets that nobody needs"};
    case Why::version:
    case Why::forgotten:
    case Why::no_more_files: break;
  }
  return {"things", "remove sets that nobody needs"};
}

}  // namespace

void throw_refusal(const Refused& refusal) {
  if (refusal.why == Why::version)
    throw Error(Errc::incompatible, "held set: the holder speaks version " + std::to_string(refusal.limit) +
                                        ", this process speaks version " + std::to_string(protocol_version));
  if (refusal.why == Why::forgotten)
    throw Error(Errc::timed_out,
                "held set: the holder had no patience for this process, twice, and forgot what it had "
                "sent; commit again, or start it with more patience");
  if (refusal.why == Why::no_more_files)
    throw Error(Errc::out_of_memory,
                "held set: the holder's process may open no more files; it has " + std::to_string(refusal.limit) +
                    " of memory: remove sets that nobody needs, or start it with a higher limit of "
                    "open files (ulimit -n)");
  const Limit limit = limit_of(refusal.why);
  throw Error(Errc::out_of_memory, "held set: the holder is full: it takes " + std::to_string(refusal.limit) + ' ' +
                                       limit.of + "; " + limit.advice + ", or start it with higher limits");
}

void check_name(const char* operation, std::string_view name) {
  if (name.empty() || name.size() > most_name)
    throw Error(Errc::invalid_argument, std::string(operation) + ": a name of " + std::to_string(name.size()) +
                                            " bytes; it may have 1 to " + std::to_string(most_name));
  if (!is_text(name))
    throw Error(Errc::invalid_argument, std::string(operation) +
                                            ": a name has to be UTF-8 without control characters, and '" +
                                            to_text(name, most_name) + "' is not");
}

Connection::Connection(const std::string& path, const std::string& set, Role role, const ipc::HoldOptions& options,
                       const Deadline& deadline)
    : Connection(path, set, role, options.other_users, sooner(Deadline(options.timeout), deadline)) {}

Connection::Connection(const std::string& path, const std::string& set, Role role, bool other_users,
                       const Deadline& soon)
    : socket_(connect_to(path, soon)), path_(path), packet_(largest_packet) {
  if (!other_users && user_of(socket_.get()) != ::geteuid())
    throw Error(Errc::permission_denied, "held set: the holder at '" + path + "' is another user's");
  try {
    send(encode(Hello{protocol_version, role, set}), {}, soon);
  } catch (const Error& error) {
    if (error.code() != Errc::peer_gone) throw;  // a holder that refuses may have said why, and gone
  }
  std::vector<spi::StrangerFd> files;
  const Message answer = decode(receive(files, soon));
  if (const auto* const refused = std::get_if<Refused>(&answer)) throw_refusal(*refused);
  const auto* const welcome = std::get_if<Welcome>(&answer);
  if (!welcome || welcome->version != protocol_version || !files.empty()) violated("no welcome");
}

void Connection::send(Bytes packet, std::span<const int> files, const Deadline& deadline) {
  while (send_packet(socket_.get(), packet, files, false) < 0) {
    if (errno == EPIPE || errno == ECONNRESET) hung_up(path_);
    if (errno != EAGAIN) fail_socket("sendmsg", errno);
    wait(socket_.get(), POLLOUT, deadline, path_);
  }
}

Bytes Connection::receive(std::vector<spi::StrangerFd>& files, const Deadline& deadline) {
  files.clear();
  files.reserve(most_sent_files);
  for (bool reset = false;;) {
    wait(socket_.get(), POLLIN, deadline, path_);
    const Arrival arrival = receive_packet(socket_.get(), packet_, files);
    if (arrival.error == EINTR || arrival.error == EAGAIN) continue;
    if (arrival.error == ECONNRESET && !reset) {  // said once; what was sent before comes behind it
      reset = true;
      continue;
    }
    if (arrival.bytes == 0 || arrival.error == ECONNRESET) hung_up(path_);
    if (arrival.bytes < 0) fail_socket("recvmsg", arrival.error);
    if (arrival.files_lost) fail_lost_files("held set");
    if (arrival.cut) violated("a packet is too large");
    return Bytes(packet_).first(static_cast<std::size_t>(arrival.bytes));
  }
}

}  // namespace weir::detail::hold
