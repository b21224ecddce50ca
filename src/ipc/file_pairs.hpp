// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pairs of connected files, one of which goes to another process: what one side does, or its end, the other learns from
// the kernel. The other process, and everybody to whom it passes its file on, may do with that file what it likes.

#include <utility>

#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

// All that is made here closes on exec. Functions throw, and name `purpose`, when there is none.

/// The end that is read, and the end that is written. The first hangs up when the last copy of the second is closed.
[[nodiscard]] std::pair<spi::UniqueFd, spi::UniqueFd> make_pipe(const char* purpose);

/// The end that receives, which may go elsewhere, and the one that sends. Nothing can be sent the other way, no file
/// either: what comes that way would be closed with the end that sends.
[[nodiscard]] std::pair<spi::UniqueFd, spi::UniqueFd> make_one_way_sockets(const char* purpose);

// Both of the following throw corrupt_descriptor when `end`, which a stranger sent, is something else. They ask nothing
// for which anybody could let them wait.

/// Something else might never tell of the end of its last copy, or might not keep from telling.
void check_write_end(int end, const char* purpose);

/// Something else might never tell of the other side's end.
void check_socket_end(int end, const char* purpose);

/// Throw that `call` failed so.
[[noreturn]] void fail_descriptor(const char* purpose, const char* call, int error);

}  // namespace weir::detail
