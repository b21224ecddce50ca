// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "fds.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test {

/// As long as it lives, this process can open so many files more.
class FewFiles {
 public:
  explicit FewFiles(std::size_t left) {
    (void)open_fds();  // waits for files that are still to be closed, which would make room
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{512, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (;;) {
      spi::UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!file) break;
      taken_.push_back(std::move(file));
    }
    taken_.resize(taken_.size() - left);
  }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;
  ~FewFiles() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
  std::vector<spi::UniqueFd> taken_;
};

}  // namespace weir::test
