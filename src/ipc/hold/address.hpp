// SPDX-License-Identifier: Apache-2.0
#pragma once
// The place of a holder in the file system, and who is at the other end of a socket.

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "weir/error.hpp"

namespace weir::detail::hold {

/// Return the address of a path. Throws invalid_argument for one that is empty or too long.
[[nodiscard]] inline sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path || path.find('\0') != std::string::npos)
    throw Error(Errc::invalid_argument, "holder: the path '" + path + "' has " + std::to_string(path.size()) +
                                            " bytes; a socket's path has 1 to " +
                                            std::to_string(sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Return whether the process at the other end belongs to this process's user.
[[nodiscard]] inline bool is_same_user(int socket, uid_t own) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == own;
}

}  // namespace weir::detail::hold
