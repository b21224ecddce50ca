// SPDX-License-Identifier: Apache-2.0
// Sends and receives descriptors over a Unix-domain socket: the bytes in one message, the file descriptors beside them.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "ipc/channel/deadline.hpp"
#include "ipc/packets.hpp"
#include "weir/error.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::ipc {
namespace {

constexpr std::size_t most_fds = 4;
using Files = std::vector<spi::StrangerFd>;

void wait_readable(int socket, const detail::channel::Deadline& deadline) {
  for (;;) {
    pollfd entry{socket, POLLIN, 0};
    const int count = ::poll(&entry, 1, deadline.milliseconds());
    if (count > 0) return;
    if (count == 0 && deadline.milliseconds() == 0)
      throw Error(Errc::timed_out, "receive: no descriptor arrived in time");
    if (count == 0) continue;
    if (errno != EINTR) detail::fail_socket("poll", errno);
  }
}

std::vector<spi::UniqueFd> release(Files& files) {
  std::vector<spi::UniqueFd> released(files.size());
  std::ranges::transform(files, released.begin(), [](spi::StrangerFd& file) { return file.trust(); });
  return released;
}

}  // namespace

void send(int socket, const Descriptor& descriptor) {
  const auto fds = descriptor.fds();
  if (fds.size() > most_fds) throw Error(Errc::invalid_argument, "send: more than 4 file descriptors");
  const auto bytes = descriptor.bytes();
  std::array<int, most_fds> numbers{};
  std::ranges::transform(fds, numbers.begin(), [](const auto& fd) { return fd.get(); });
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto files = std::span(numbers).first(sent == 0 ? fds.size() : 0);
    const auto count = detail::send_packet(socket, bytes.subspan(sent), files, true);
    if (count < 0) detail::fail_socket("sendmsg", errno);
    sent += static_cast<std::size_t>(count);
  }
}

Descriptor receive(int socket, std::chrono::milliseconds timeout) {
  const detail::channel::Deadline deadline(timeout);
  std::array<std::byte, Descriptor::size> bytes;
  Files files;
  files.reserve(most_fds + detail::most_sent_files);  // nothing may throw between receiving files and owning them
  std::size_t got = 0;
  while (got < bytes.size()) {
    wait_readable(socket, deadline);
    const auto arrival = detail::receive_packet(socket, std::span(bytes).subspan(got), files);
    if (arrival.error == EINTR || arrival.error == EAGAIN) continue;
    if (arrival.bytes < 0) detail::fail_socket("recvmsg", arrival.error);
    if (files.size() > most_fds) throw Error(Errc::corrupt_descriptor, "receive: more than 4 file descriptors");
    if (arrival.files_lost) detail::fail_lost_files("receive");
    if (arrival.cut) {
      throw Error(Errc::corrupt_descriptor, "receive: the message is larger than a descriptor's");
    }
    if (arrival.bytes == 0) {
      if (got == 0) throw Error(Errc::peer_gone, "receive: the other end closed the socket");
      throw Error(Errc::corrupt_descriptor, "receive: the message ended after " + std::to_string(got) + " bytes");
    }
    got += static_cast<std::size_t>(arrival.bytes);
  }
  return {bytes, release(files)};
}

}  // namespace weir::ipc
