// SPDX-License-Identifier: Apache-2.0
#pragma once
// The other end of a Unix-domain socket: the path at which somebody listens, and whose process is there.

#include <sys/types.h>
#include <sys/un.h>

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

/// Return that process, which for a path is the one that began to listen; nothing if the kernel does not say, or it is
/// in a namespace that this process does not see.
[[nodiscard]] std::optional<pid_t> process_of(int socket) noexcept;

}  // namespace weir::detail
