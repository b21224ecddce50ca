// SPDX-License-Identifier: Apache-2.0
#include "ipc/peer.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ipc/packets.hpp"
#include "ipc/slices.hpp"
#include "weir/error.hpp"

namespace weir::detail {

sockaddr_un address_of(const char* whose, const std::string& path) {
  sockaddr_un address{};
  constexpr std::size_t most = sizeof address.sun_path - 1;
  if (path.empty() || path.size() > most || path.find('\0') != path.npos) {
    throw Error(Errc::invalid_argument, std::string(whose) + ": a socket's path has 1 to " + std::to_string(most) +
                                            " bytes, and '" + path + "' has " + std::to_string(path.size()) +
                                            "; use a shorter folder");
  }
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int try_connect(int socket, const sockaddr_un& address) noexcept {
  return ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

int connect_by(int socket, const sockaddr_un& address, const channel::Deadline& deadline) {
  for (;;) {
    const int slice = slice_of(deadline);
    const int left = slice < 0 ? 0 : std::max(slice, 1);  // 0 means no limit
    const timeval limit{left / 1000, left % 1000 * 1000};
    if (::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) fail_socket("setsockopt", errno);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return 0;
    const bool early = errno == EAGAIN && !deadline.over();  // the longest limit is shorter than some deadlines
    if (errno == EINTR && deadline.over()) return EAGAIN;  // signals that come all the time do not make it last longer
    if (errno != EINTR && !early) return errno;
    check_interruption();
  }
}

bool wait_for(int socket, short events, const channel::Deadline& deadline) {
  for (;;) {
    pollfd entry{socket, events, 0};
    const int count = ::poll(&entry, 1, slice_of(deadline));
    if (count > 0) return true;
    if (count == 0 && deadline.over()) return false;
    if (count < 0 && errno != EINTR) fail_socket("poll", errno);
    check_interruption();
  }
}

std::optional<uid_t> user_of(int socket) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

std::optional<Listener> listener_at(const std::string& path) noexcept {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return Listener{found.st_dev, found.st_ino, found.st_ctim.tv_sec, found.st_ctim.tv_nsec};
}

}  // namespace weir::detail
