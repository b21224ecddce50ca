// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a bare socket does between two processes: the peer of the rows.
#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "weir/channel.hpp"

namespace weir::bench {

/// Send one packet.
inline void put(int socket, std::span<const std::byte> bytes) {
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0)
    throw std::system_error(errno, std::generic_category(), "send");
}
/// Receive one packet. Return false when the other end is closed.
inline bool get(int socket, std::span<std::byte> bytes) { return ::recv(socket, bytes.data(), bytes.size(), 0) > 0; }

}  // namespace weir::bench
