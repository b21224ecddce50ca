// SPDX-License-Identifier: Apache-2.0
#pragma once
// Owner of a file that other processes hold, too.

#include <utility>

#include "weir/spi/unique_fd.hpp"

namespace weir::spi {

/// A file descriptor whose close another process may block for as long as it likes: a file of that process's own file
/// system, a socket that lingers, a pipe that the process keeps busy. The descriptor is closed on a thread that may
/// wait and serves nobody else, some time after this object has let go of it. -1 = none.
class StrangerFd {
 public:
  StrangerFd() noexcept = default;
  /// Take over `file`, which is not trusted.
  StrangerFd(UniqueFd file) noexcept : file_(std::move(file)) {}  // NOLINT(google-explicit-constructor): no harm in it
  /// Take over the file of `other`.
  StrangerFd(StrangerFd&& other) noexcept = default;
  /// Let go of this file, and take over that of `other`.
  StrangerFd& operator=(StrangerFd&& other) noexcept {
    if (this != &other) {
      reset();
      file_ = std::move(other.file_);
    }
    return *this;
  }
  ~StrangerFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return file_.get(); }                ///< -1 when there is none
  explicit operator bool() const noexcept { return static_cast<bool>(file_); }  ///< whether there is one
  void reset() noexcept;  ///< let go of the file, which is closed soon
  /// Give the file to the caller, because it turned out to be of a kind whose close nobody can block.
  [[nodiscard]] UniqueFd trust() noexcept { return std::move(file_); }
  /// As UniqueFd::duplicate.
  [[nodiscard]] StrangerFd duplicate(int lowest = 0) const { return file_.duplicate(lowest); }

 private:
  UniqueFd file_;
};

}  // namespace weir::spi
