// SPDX-License-Identifier: Apache-2.0
#include "ipc/packets.hpp"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "weir/error.hpp"

namespace weir::detail {
namespace {

// Room for all files of a message, and for other data for which the socket's owner may have asked (credentials, a
// pidfd, a security label). The kernel closes files that find no room before the call returns, however long that takes.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * most_sent_files) + 1024];
};

// Put an entry behind the first `used` bytes. Return how many are used then.
std::size_t put(Control& control, std::size_t used, int type, const void* data, std::size_t bytes) noexcept {
  std::memset(control.bytes + used, 0, CMSG_SPACE(bytes));
  auto* const header = reinterpret_cast<cmsghdr*>(control.bytes + used);  // CMSG_SPACE keeps the alignment
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), data, bytes);
  return used + CMSG_SPACE(bytes);
}

std::int32_t sender_of(const msghdr& message) noexcept {
  auto* header = CMSG_FIRSTHDR(&message);
  for (; header; header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
    return sender.pid;
  }
  return 0;
}

void take_files(const msghdr& message, std::vector<spi::StrangerFd>& files) noexcept {
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

}  // namespace

std::ptrdiff_t send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> files, bool wait,
                           Sender sender) noexcept {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Control control;
  std::size_t used = 0;
  if (!files.empty()) used = put(control, 0, SCM_RIGHTS, files.data(), files.size_bytes());
  const std::size_t only_files = used;
  if (sender == Sender::named) {
    const ucred me{::getpid(), ::geteuid(), ::getegid()};
    used = put(control, used, SCM_CREDENTIALS, &me, sizeof me);
  }
  const int flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
  for (;;) {
    message.msg_control = used != 0 ? control.bytes : nullptr;
    message.msg_controllen = used;
    const auto count = ::sendmsg(socket, &message, flags);
    if (count >= 0) return count;
    if ((errno == EPERM || errno == EINVAL) && used != only_files) {
      used = only_files;
    } else if (errno != EINTR) {
      return count;
    }
  }
}

void ask_for_senders(int socket, bool ask) noexcept {
  const int value = ask ? 1 : 0;
  (void)::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &value, sizeof value);
}

Arrival receive_packet(int socket, std::span<std::byte> bytes, std::vector<spi::StrangerFd>& files) noexcept {
  iovec part{bytes.data(), bytes.size()};
  Control control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const auto count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (count < 0) return {-1, errno, false, false, 0};
  take_files(message, files);
  const int flags = message.msg_flags;
  return {count, 0, (flags & MSG_TRUNC) != 0, (flags & MSG_CTRUNC) != 0, sender_of(message)};
}

void fail_lost_files(const char* operation) {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  throw Error(
      {EMFILE, std::generic_category()},
      std::string(operation) + ": files came for which this process has no room: it may have " +
          std::to_string(limit.rlim_cur) +
          " files open; raise that limit (ulimit -n), or let the sender allocate from a pool, whose buffers share "
          "files");
}

void fail_socket(const char* call, int error) {
  const std::error_code code(error, std::generic_category());
  const bool gone = error == EPIPE || error == ECONNRESET;
  const auto message = std::string(call) + " on the socket: " + code.message();
  if (gone) throw Error(Errc::peer_gone, message);
  throw Error(code, message);
}

}  // namespace weir::detail
