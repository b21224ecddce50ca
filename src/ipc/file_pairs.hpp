// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pairs of connected files, one of which goes to another process. Each side learns from the kernel what the other side
// does, and that the other side has ended. The other process, and any process to which it passes its file on, may do
// whatever it likes with that file.

#include <utility>

#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

// All files that are made here close on exec. When no file can be made, the functions throw, and the message names
// `purpose`.

/// Make a pipe and return its read end and its write end. The read end hangs up when the last copy of the write end is
/// closed.
[[nodiscard]] std::pair<spi::UniqueFd, spi::UniqueFd> make_pipe(const char* purpose);

/// Make two connected Unix-domain sockets.
[[nodiscard]] std::pair<spi::UniqueFd, spi::UniqueFd> make_sockets(int type, const char* purpose);

/// Return whether `file` is a Unix-domain socket of that type which does not listen. This is no call in which anybody
/// could keep the caller waiting.
[[nodiscard]] bool is_unix_socket(int file, int type) noexcept;

/// Make a socket pair and return the end that receives, which may go to another process, and the end that sends.
/// Nothing can be sent the other way, not even a file: a file sent that way would be closed together with the end that
/// sends.
[[nodiscard]] std::pair<spi::UniqueFd, spi::UniqueFd> make_one_way_sockets(const char* purpose);

// The next two functions check a file that a stranger sent, and throw corrupt_descriptor when it is something else.
// They make no call in which anybody could keep them waiting.

/// Check that `end` is the write end of a pipe. Anything else might never signal that its last copy is closed, or might
/// signal it although copies are still open.
void check_write_end(int end, const char* purpose);

/// Check that `end` is one end of a stream socket pair. Anything else might never signal that the other side has ended.
void check_socket_end(int end, const char* purpose);

/// Throw an error that says that `call` failed with `error`.
[[noreturn]] void fail_descriptor(const char* purpose, const char* call, int error);

}  // namespace weir::detail
