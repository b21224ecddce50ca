// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "weir/spi/fork_link.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail {

/// A file that is this process's alone: a child that is forked closes its copy.
class OwnFile {
 public:
  explicit OwnFile(spi::UniqueFd file) noexcept : file_(std::move(file)) {}
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
  ~OwnFile() = default;

  [[nodiscard]] int get() const noexcept { return file_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(file_); }  ///< false in a child

 private:
  friend class spi::ForkLink;
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::child) file_.reset();
  }

  spi::UniqueFd file_;
  spi::ForkLink link_{*this};  // the last member, as ForkLink requires
};

}  // namespace weir::detail
