// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes and files over a connected Unix-domain socket, one call of the system at a time.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weir/spi/stranger_fd.hpp"

namespace weir::detail {

inline constexpr std::size_t most_sent_files = 253;  ///< that anybody can put into one message

/// Whether a packet carries the id of the process that sends it. The kernel checks it.
enum class Sender { unnamed, named };

/// Send bytes, and copies of the files beside the first of them. Return how many bytes were sent, and -1 with errno set
/// when none were. Does not wait if `wait` is false. Where the kernel refuses to name the sender, it is not named.
[[nodiscard]] std::ptrdiff_t send_packet(int socket, std::span<const std::byte> bytes, std::span<const int> files,
                                         bool wait, Sender sender = Sender::unnamed) noexcept;

struct Arrival {
  std::ptrdiff_t bytes = 0;  ///< -1 when the call failed with `error`; 0 when the other end is closed
  int error = 0;
  bool cut = false;          ///< there were more bytes
  bool files_lost = false;   ///< there were more files, which the kernel has closed
  std::int32_t process = 0;  ///< that sent it, if the packet names it, the socket asks, and this process can see it
};

/// Have packets that are received from now on tell who sent them, or not. Where that is impossible, they do not.
void ask_for_senders(int socket, bool ask) noexcept;

/// Receive what has come, without waiting, and append its files to `files`, which must have room for most_sent_files
/// more.
[[nodiscard]] Arrival receive_packet(int socket, std::span<std::byte> bytes, std::vector<spi::StrangerFd>& files) noexcept;

/// Throw EMFILE, in the name of `operation`: nobody can send more files than receive_packet() has room for, so files
/// are lost only where this process may not open them.
[[noreturn]] void fail_lost_files(const char* operation);

/// Throw the error that a call on a socket returned: peer_gone when the other end is closed.
[[noreturn]] void fail_socket(const char* call, int error);

}  // namespace weir::detail
