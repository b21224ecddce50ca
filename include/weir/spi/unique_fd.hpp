// SPDX-License-Identifier: Apache-2.0
#pragma once
// Owner of a file descriptor.

#include <utility>

namespace weir::spi {

/// Closes its descriptor on destruction. -1 = none.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept;
  /// Return a second descriptor (close-on-exec) of the same file. Its number is at least `lowest` where the limit
  /// allows that. Throws.
  [[nodiscard]] UniqueFd duplicate(int lowest = 0) const;

 private:
  int fd_ = -1;
};

}  // namespace weir::spi
