// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files of other processes are closed on threads that may block and that serve nobody else. One thread does it while
// nobody blocks it; another one takes over from a thread that is stuck. When all that there may be are stuck, files
// stay open until one comes back, which is reported once.

#include <cstddef>
#include <vector>

#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

/// Close `file` soon, elsewhere. Returns at once, unless so many wait already that a thread which is not stuck has to
/// be given time. Without memory or a thread the file stays open, which is reported.
void close_apart(spi::UniqueFd file) noexcept;
/// The same for the files from `first` on; they are gone from there afterwards.
void close_apart(std::vector<spi::UniqueFd>& files, std::size_t first = 0) noexcept;

/// Wait until what was handed over before this call is closed, except for files that block.
void settle_closes() noexcept;

/// Files that were handed over and are not closed yet.
[[nodiscard]] std::size_t files_to_close() noexcept;

}  // namespace weir::detail
