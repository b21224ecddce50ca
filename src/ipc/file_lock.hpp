// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <string>
#include <utility>

#include "ipc/own_file.hpp"

namespace weir::detail {

/// A lock of a file, for as long as this object or its process lives. A lock belongs to all copies of the file, so a
/// child that is forked would have it, too: it closes its copy. The end of this object unlocks the file, and so takes
/// the lock from a copy that was made while the file was being opened, before this object was there.
class FileLock {
 public:
  explicit FileLock(spi::UniqueFd file) noexcept : file_(std::move(file)) {}
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() {
    if (file_) (void)::flock(file_.get(), LOCK_UN);
  }

  /// Take the lock, which nobody else may have. Return false if that fails; errno says why.
  [[nodiscard]] bool take() noexcept { return ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0; }

 private:
  OwnFile file_;
};

/// Open the file beside a path whose lock is for those who serve that path: `path`.lock, which this user alone can
/// open. Return nothing if that fails; errno says why. The file stays there: if the one with the lock removed it, two
/// others could each have a lock of that name.
[[nodiscard]] inline spi::UniqueFd open_lock_file(const std::string& path) {
  constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  return spi::UniqueFd(::open((path + ".lock").c_str(), flags, 0600));
}

}  // namespace weir::detail
