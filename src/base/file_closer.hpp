// SPDX-License-Identifier: Apache-2.0
#pragma once
// Closes files that come from other processes, on threads that may block and that do nothing else. One thread is enough
// while no close blocks; another thread takes over from one that is stuck. There is a limit to the number of threads.
// When all of them are stuck, files stay open until one thread comes back, and that is reported once. Pipes have
// threads of their own.

#include <cstddef>
#include <vector>

#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

/// Close `file` soon, on another thread. Returns at once, unless so many files wait already that a thread which is not
/// stuck needs time to catch up. If there is no memory or no thread, the file stays open, and that is reported.
void close_apart(spi::UniqueFd file) noexcept;
/// Close the files from index `first` on in the same way, and remove them from `files`.
void close_apart(std::vector<spi::UniqueFd>& files, std::size_t first = 0) noexcept;

/// Wait until the files that were handed over before this call are closed, except for files whose close blocks.
void settle_closes() noexcept;

/// Return the number of files that were handed over and are not closed yet.
[[nodiscard]] std::size_t files_to_close() noexcept;

}  // namespace weir::detail
