// SPDX-License-Identifier: Apache-2.0
#pragma once
// Leases on memory that other processes use, and that must not be given out again meanwhile. The kernel counts the
// users: a lease is the write end of a pipe, and the read end hangs up when the last copy of the write end is closed,
// by a close or with its process. A lease lasts as long as anybody keeps a copy. Nothing else that others do with their
// copies makes it longer or shorter.

#include <cstddef>
#include <vector>

#include "memory/lent.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail {

/// Keep `buffer` until every copy of the returned file is closed, in whatever process. Throws when there is no file
/// descriptor, memory or thread for that.
[[nodiscard]] spi::StrangerFd grant_lease(Buffer buffer);
/// The same for many buffers at once, of which there is at least one.
[[nodiscard]] spi::StrangerFd grant_lease(std::vector<Buffer> buffers);

/// Give back the buffers of leases that have ended; on return this is done for all leases that ended before the call.
/// Return false when there was no lease to look at. Does nothing when called from the end of such a buffer, or from a
/// release of memory, because the end of such a buffer may wait for that release.
bool settle_leases();

/// Add the buffers of all leases that have not ended. Nobody knows which processes have them.
void list_leases(LentList& lent);

/// Return the number of leases that have not ended.
[[nodiscard]] std::size_t granted_leases();

}  // namespace weir::detail
