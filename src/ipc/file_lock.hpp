// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/file.h>

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

}  // namespace weir::detail
