// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pairs of connected sockets, one end of which goes to another process: what one side does, or its end, the other learns
// from the kernel.

#include <utility>

#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

/// Both ends close on exec. Throws, and names `purpose`, when there is none.
[[nodiscard]] std::pair<spi::UniqueFd, spi::UniqueFd> make_socket_pair(const char* purpose);

/// Throws corrupt_descriptor when `end`, which a stranger sent, is something else: it might never tell of the other side's
/// end, or block whoever closes it.
void check_socket_end(const spi::UniqueFd& end, const char* purpose);

/// Throw that `call` failed so.
[[noreturn]] void fail_descriptor(const char* purpose, const char* call, int error);

}  // namespace weir::detail
