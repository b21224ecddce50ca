// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "weir/spi/fork_link.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::detail::hold {

/// A file of a set, which a holder keeps for others. A child that the holder's process forks lets go of its copy, which
/// would keep the memory, and its lease, for as long as the child lives. Nobody knows what a stranger sent, so the copy
/// is closed on a thread that may block, too.
class KeptFile {
 public:
  explicit KeptFile(spi::StrangerFd file) : own_(std::make_unique<Own>(std::move(file))) {}
  [[nodiscard]] int get() const noexcept { return own_->file.get(); }

 private:
  struct Own {
    explicit Own(spi::StrangerFd from) noexcept : file(std::move(from)) {}
    void fork(spi::ForkMoment moment) noexcept {
      if (moment == spi::ForkMoment::child) file.reset();
    }
    spi::StrangerFd file;
    spi::ForkLink link{*this};  // the last member, as ForkLink requires
  };
  std::unique_ptr<Own> own_;
};

}  // namespace weir::detail::hold
