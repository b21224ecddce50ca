// SPDX-License-Identifier: Apache-2.0
// Sends and receives descriptors over a Unix-domain socket: the bytes in one message, the file descriptors beside them.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "weir/error.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::ipc {
namespace {

constexpr std::size_t most_fds = 4;
constexpr std::size_t most_sent = 253;  // files that anybody can put into one message; a call receives one message

// Room for all files of a message, and for other data for which the socket's owner may have asked (credentials, a
// pidfd, a security label). The kernel closes files that find no room before the call returns, however long that takes.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * most_sent) + 1024];
};

using Files = std::vector<spi::StrangerFd>;

[[noreturn]] void fail(const char* call, int error) {
  const std::error_code code(error, std::generic_category());
  const bool gone = error == EPIPE || error == ECONNRESET;
  const auto message = std::string(call) + " on the socket: " + code.message();
  if (gone) throw Error(Errc::peer_gone, message);
  throw Error(code, message);
}

void wait_readable(int socket, std::chrono::steady_clock::time_point deadline, bool endless) {
  for (;;) {
    int left = -1;
    if (!endless) {
      const auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      left = static_cast<int>(std::clamp<std::int64_t>(rest.count(), 0, 1 << 30));
    }
    pollfd entry{socket, POLLIN, 0};
    const int count = ::poll(&entry, 1, left);
    if (count > 0) return;
    if (count == 0) throw Error(Errc::timed_out, "receive: no descriptor arrived in time");
    if (errno != EINTR) fail("poll", errno);
  }
}

// Append the files of `message` to `files`, which must have room for all of them.
void take_files(const msghdr& message, Files& files) {
  constexpr int pidfd = 4;  // SCM_PIDFD, which not every system's headers have
  auto* header = CMSG_FIRSTHDR(&message);
  for (; header; header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    const bool sent = header->cmsg_type == SCM_RIGHTS;
    if (!sent && header->cmsg_type != pidfd) continue;
    const auto count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof number, sizeof number);
      spi::UniqueFd file(number);
      if (sent) files.emplace_back(std::move(file));
    }
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
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    iovec part{const_cast<std::byte*>(bytes.data()) + sent, bytes.size() - sent};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    Control control{};
    if (sent == 0 && !fds.empty()) {
      message.msg_control = control.bytes;
      message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
      auto* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
      std::array<int, most_fds> numbers{};
      std::transform(fds.begin(), fds.end(), numbers.begin(), [](const auto& fd) { return fd.get(); });
      std::memcpy(CMSG_DATA(header), numbers.data(),
                  sizeof numbers);  // control has room for all; msg_controllen limits what is sent
    }
    const auto count = ::sendmsg(socket, &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("sendmsg", errno);
    sent += static_cast<std::size_t>(count);
  }
}

Descriptor receive(int socket, std::chrono::milliseconds timeout) {
  const bool endless = timeout.count() < 0;
  const auto deadline = std::chrono::steady_clock::now() + (endless ? std::chrono::milliseconds{0} : timeout);
  std::array<std::byte, Descriptor::size> bytes;
  Files files;
  files.reserve(most_fds + most_sent);  // nothing may throw between receiving files and owning them
  std::size_t got = 0;
  while (got < bytes.size()) {
    wait_readable(socket, deadline, endless);
    iovec part{bytes.data() + got, bytes.size() - got};
    Control control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    const auto count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) fail("recvmsg", errno);
    take_files(message, files);
    if (files.size() > most_fds) throw Error(Errc::corrupt_descriptor, "receive: more than 4 file descriptors");
    if (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) {
      throw Error(Errc::corrupt_descriptor, "receive: the message is larger than a descriptor's");
    }
    if (count == 0) {
      if (got == 0) throw Error(Errc::peer_gone, "receive: the other end closed the socket");
      throw Error(Errc::corrupt_descriptor, "receive: the message ended after " + std::to_string(got) + " bytes");
    }
    got += static_cast<std::size_t>(count);
  }
  return {bytes, release(files)};
}

}  // namespace weir::ipc
