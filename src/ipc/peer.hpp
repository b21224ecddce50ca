// SPDX-License-Identifier: Apache-2.0
#pragma once
// The other end of a Unix-domain socket: the path at which somebody listens, and whose process is there.

#include <sys/types.h>
#include <sys/un.h>

#include <cstdint>
#include <optional>
#include <string>

#include "ipc/channel/deadline.hpp"

namespace weir::detail {

/// Return the address of a socket's path. Throws invalid_argument, in the name of `whose`, for one that is empty or too
/// long.
[[nodiscard]] sockaddr_un address_of(const char* whose, const std::string& path);

/// Connect a socket that does not block. Return 0 or the error of connect: ECONNREFUSED for the socket of a program
/// that is gone.
[[nodiscard]] int try_connect(int socket, const sockaddr_un& address) noexcept;

/// Connect a socket that blocks. The kernel lets it wait for a place in the listener's queue, but not beyond
/// `deadline`. Return 0 or the error of connect: EAGAIN when the time is over.
[[nodiscard]] int connect_by(int socket, const sockaddr_un& address, const channel::Deadline& deadline);

/// Wait until one of `events` has come. Return false when the time is over.
[[nodiscard]] bool wait_for(int socket, short events, const channel::Deadline& deadline);

/// Return the user of the process at the other end, or of the one that made this pair of sockets; nothing if the kernel
/// does not say.
[[nodiscard]] std::optional<uid_t> user_of(int socket) noexcept;

/// A socket that listens at a path. Another one that takes its place there is not equal.
struct Listener {
  dev_t device;
  ino_t file;
  std::int64_t seconds, nanoseconds;  // when the file was made, or its mode changed
  bool operator==(const Listener&) const = default;
};
/// Return what is at `path`; nothing if there is nothing, or it cannot be looked at.
[[nodiscard]] std::optional<Listener> listener_at(const std::string& path) noexcept;

}  // namespace weir::detail
