// SPDX-License-Identifier: Apache-2.0
// Sends and receives descriptors over a Unix-domain socket: the bytes in one message, the file descriptors beside them.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <vector>

#include "ipc/channel/deadline.hpp"
#include "ipc/packets.hpp"
#include "ipc/peer.hpp"
#include "ipc/wire.hpp"
#include "weir/error.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::ipc {
namespace {

using Files = std::vector<spi::StrangerFd>;

// A descriptor has at most two files beside those of the memory. One more than that is refused when it is opened.
void check_count(Errc code, const char* operation, std::size_t files, std::size_t bytes) {
  const std::size_t most = std::min(detail::files_in(bytes) + 3, detail::most_sent_files);
  if (files <= most) return;
  throw Error(code, std::string(operation) + ": more than " + std::to_string(most) + " file descriptors");
}

bool sends_packets(int socket) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0) detail::fail_socket("getsockopt", errno);
  return type != SOCK_STREAM;
}

void wait_readable(int socket, const detail::channel::Deadline& deadline) {
  if (!detail::wait_for(socket, POLLIN, deadline))
    throw Error(Errc::timed_out, "receive: no descriptor arrived in time");
}

std::vector<spi::UniqueFd> release(Files& files) {
  std::vector<spi::UniqueFd> released(files.size());
  std::ranges::transform(files, released.begin(), [](spi::StrangerFd& file) { return file.trust(); });
  return released;
}

}  // namespace

void send(int socket, const Descriptor& descriptor, std::chrono::milliseconds timeout) {
  const detail::channel::Deadline deadline(timeout);
  const auto fds = descriptor.fds();
  const auto bytes = descriptor.bytes();
  check_count(Errc::invalid_argument, "send", fds.size(), bytes.size());
  std::vector<int> numbers(fds.size());
  std::ranges::transform(fds, numbers.begin(), [](const auto& fd) { return fd.get(); });
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto files = std::span(numbers).first(sent == 0 ? fds.size() : 0);
    const auto count = detail::send_packet(socket, bytes.subspan(sent), files, false);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno != EAGAIN) {
      detail::fail_socket("sendmsg", errno);
    } else if (!detail::wait_for(socket, POLLOUT, deadline)) {
      throw Error(Errc::timed_out, "send: the socket had no room in time");
    }
  }
}

Descriptor receive(int socket, std::chrono::milliseconds timeout) {
  const detail::channel::Deadline deadline(timeout);
  std::array<std::byte, detail::most_wire_size> buffer;
  const std::span<std::byte> bytes(buffer);
  Files files;
  files.reserve(2 * detail::most_sent_files);  // nothing may throw between receiving files and owning them
  // A stream may have the next descriptor right behind this one. A packet comes as a whole.
  const bool packets = sends_packets(socket);
  std::size_t got = 0, wanted = Descriptor::size;
  while (got < wanted) {
    wait_readable(socket, deadline);
    const auto room = bytes.first(packets ? bytes.size() : wanted).subspan(got);
    const auto arrival = detail::receive_packet(socket, room, files);
    if (arrival.error == EINTR || arrival.error == EAGAIN) continue;
    if (arrival.bytes < 0) detail::fail_socket("recvmsg", arrival.error);
    const std::size_t came = got + static_cast<std::size_t>(arrival.bytes);
    if (came >= Descriptor::size) wanted = detail::whole_size(bytes.first(came));
    check_count(Errc::corrupt_descriptor, "receive", files.size(), wanted);
    if (arrival.files_lost) detail::fail_lost_files("receive");
    if (arrival.cut || came > wanted) {
      throw Error(Errc::corrupt_descriptor, "receive: the message is larger than a descriptor's");
    }
    if (arrival.bytes == 0) {
      if (got == 0) throw Error(Errc::peer_gone, "receive: the other end closed the socket");
      throw Error(Errc::corrupt_descriptor, "receive: the message ended after " + std::to_string(got) + " bytes");
    }
    got = came;
  }
  return {bytes.first(got), release(files)};
}

}  // namespace weir::ipc
