// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the functions share that the linker puts in front of the C library's.

#include <span>

namespace weir::test {

/// One error of one call.
struct Code {
  int error;
  const char* harmless = nullptr;  ///< why weir may go on as if nothing had happened; null when it must tell
  const char* names = "";          ///< what the error names, if not the call
};

/// The error that this call returns now; 0 when it shall work.
int refused(const char* call, std::span<const Code> codes);
/// Whether this call fails now, with errno set.
bool refuse(const char* call, std::span<const Code> codes);
/// Whether this call, which has a time limit, is one of those that `ended_early` counts. Counts it.
bool ends_early();

}  // namespace weir::test
