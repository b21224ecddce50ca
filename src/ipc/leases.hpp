// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that other processes use, and that must not be given out again meanwhile. The kernel counts who does: a lease
// is the write end of a pipe, whose read end hangs up when the last copy is closed, by a close or with its process.
// Nothing that others do with their copies, other than keeping one, makes it longer or shorter.

#include <cstddef>

#include "weir/buffer.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

/// Keep `buffer` until every copy of the result is closed, in whatever process. Throws when there is no descriptor,
/// memory or thread for that.
[[nodiscard]] spi::UniqueFd grant_lease(Buffer buffer);

/// Give back what is kept for leases that have ended: afterwards it is done for all that had before the call. False
/// when there was none to look at. Does nothing in the end of such a buffer, and in a release of memory, for which that
/// end may wait.
bool settle_leases();

/// Leases that have not ended.
[[nodiscard]] std::size_t granted_leases();

}  // namespace weir::detail
