// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a program crashed: drivers crash, too, on machines that nobody can log in to.

namespace weir::test {

/// Print the calls that led to a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT), as files and offsets, and let the
/// process end as it would have. Signals that something else handles, a sanitizer for example, stay with that.
void print_crashes() noexcept;

}  // namespace weir::test
