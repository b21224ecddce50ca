// SPDX-License-Identifier: Apache-2.0
#pragma once
// Owner of a file that other processes have in their hands.

#include <utility>

#include "weir/spi/unique_fd.hpp"

namespace weir::spi {

/// A file descriptor whose closing somebody else may block, for as long as he likes: a file of his own file system, a
/// socket that lingers, a pipe that he keeps busy. It is closed on a thread that may wait and serves nobody else, some
/// time after this object let go of it. -1 = none.
class StrangerFd {
 public:
  StrangerFd() noexcept = default;
  StrangerFd(UniqueFd file) noexcept : file_(std::move(file)) {}  // NOLINT(google-explicit-constructor): no harm in it
  StrangerFd(StrangerFd&& other) noexcept = default;
  StrangerFd& operator=(StrangerFd&& other) noexcept {
    if (this != &other) {
      reset();
      file_ = std::move(other.file_);
    }
    return *this;
  }
  ~StrangerFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return file_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(file_); }
  void reset() noexcept;
  /// Give up the file as one that turned out to be of a kind that nobody can block.
  [[nodiscard]] UniqueFd trust() noexcept { return std::move(file_); }
  /// As UniqueFd::duplicate.
  [[nodiscard]] StrangerFd duplicate(int lowest = 0) const { return file_.duplicate(lowest); }

 private:
  UniqueFd file_;
};

}  // namespace weir::spi
