// SPDX-License-Identifier: Apache-2.0
#include "weir/spi/unique_fd.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "weir/error.hpp"

namespace weir::spi {

void UniqueFd::reset(int fd) noexcept {
  // EBADF means that somebody else has closed this descriptor. That is reported, because if another thread had opened a
  // file under the same number meanwhile, this call would have closed that file. The number is forgotten first: a child
  // that another thread forks between the two would close the file, too.
  const int before = std::exchange(fd_, fd);
  if (before >= 0 && ::close(before) != 0 && errno == EBADF) {
    report({std::make_error_code(std::errc::bad_file_descriptor), "close", "a file of weir's was closed by somebody else"});
  }
}

UniqueFd UniqueFd::duplicate(int lowest) const {
  int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, lowest);
  if (copy < 0 && lowest != 0 && errno == EINVAL) copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);  // lowest exceeds the limit
  if (copy < 0) {
    const std::error_code code(errno, std::generic_category());
    throw Error(code, "cannot duplicate file descriptor " + std::to_string(fd_) + ": fcntl: " + code.message() +
                          (code.value() == EMFILE ? "; raise the limit (ulimit -n)" : ""));
  }
  return UniqueFd(copy);
}

}  // namespace weir::spi
