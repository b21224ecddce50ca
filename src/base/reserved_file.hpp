// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory for a whole file of this process, so that no access to it fails later.

#include <cstddef>

namespace weir::detail {

/// What a file could not be made larger for.
struct Unreserved {
  const char* call = "";
  int error = 0;  ///< 0: all is there
};

/// Reserve memory for the first `bytes` of a memfd, and make it that large. The limit of a file's size
/// (RLIMIT_FSIZE) is looked at first, because the kernel sends SIGXFSZ, which ends the process, to whoever goes beyond.
[[nodiscard]] Unreserved reserve_file(int memfd, std::size_t bytes) noexcept;

}  // namespace weir::detail
