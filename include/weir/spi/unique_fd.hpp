// SPDX-License-Identifier: Apache-2.0
#pragma once
// Owner of a file descriptor.

#include <utility>

#include "weir/export.hpp"

namespace weir::spi {

/// Closes its descriptor on destruction. -1 = none.
class WEIR_API UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}                ///< takes over `fd`
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}  ///< takes over what `other` has
  /// Close this descriptor, and take over that of `other`.
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }                   ///< -1 when there is none
  explicit operator bool() const noexcept { return fd_ >= 0; }             ///< whether there is one
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }  ///< give it to the caller
  void reset(int fd = -1) noexcept;                                        ///< close it, and take over `fd`
  /// Return a second descriptor (close-on-exec) of the same file. Its number is at least `lowest` where the limit
  /// allows that. Throws.
  [[nodiscard]] UniqueFd duplicate(int lowest = 0) const;

 private:
  int fd_ = -1;
};

}  // namespace weir::spi
