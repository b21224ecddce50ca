// SPDX-License-Identifier: Apache-2.0
#include "base/reserved_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

namespace weir::detail {
namespace {

bool within_limit(std::size_t bytes) noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

}  // namespace

// When a signal arrives, the kernel gives up all that the call has reserved. So this goes piece by piece, each small
// enough to be done between two signals of a timer.
Unreserved reserve_file(int memfd, std::size_t bytes) noexcept {
  constexpr std::size_t piece = std::size_t{16} << 20;
  if (!within_limit(bytes)) return {"getrlimit(RLIMIT_FSIZE)", EFBIG};
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t size = std::min(piece, bytes - done);
    const int error = ::posix_fallocate(memfd, static_cast<off_t>(done), static_cast<off_t>(size));
    if (error == 0) {
      done += size;
    } else if (error != EINTR) {
      return {"posix_fallocate", error};
    }
  }
  return {};
}

}  // namespace weir::detail
