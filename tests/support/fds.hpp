// SPDX-License-Identifier: Apache-2.0
#pragma once
// Counting this process's file descriptors, to see leaks and double closes.

#include <cstddef>
#include <string>

namespace weir::test {

/// Return when all files that other processes may block are closed, however long that takes.
void settle_files();
/// Descriptors open now, from /proc/self/fd, after those of memory that was closed before, on every device. Waits for
/// the last use of that memory. Those that a driver keeps of its device, or opens of its cache, do not count.
std::size_t open_fds();
/// Files in memory that this process has mapped. A file counts once, because a driver may map parts of one file for its
/// own memory (lavapipe of Mesa 25 does), and add to them at any time.
std::size_t mapped_memfds();
/// What the descriptors are, one line each, for the message of a failed comparison.
std::string describe_fds();

}  // namespace weir::test

/// Expect as many descriptors as `before`.
#define EXPECT_FDS(before) EXPECT_EQ(::weir::test::open_fds(), before) << ::weir::test::describe_fds()
