// SPDX-License-Identifier: Apache-2.0
#include "ipc/opened_once.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <span>
#include <system_error>
#include <vector>

#include "weir/error.hpp"

namespace weir::test {
namespace {

using detail::OpenedOnce;

class OpenOnce : public testing::Test {
 protected:
  template <class Failure>
  void fails(const Failure& failure) {
    EXPECT_THROW(
        (void)memory_.get([&](Files files) -> int {
          EXPECT_TRUE(all(files));
          throw failure;
        }),
        Failure);
  }
  int succeeds() {
    return memory_.get([](Files files) {
      EXPECT_TRUE(all(files));
      return 7;
    });
  }
  int asks_nobody() {
    return memory_.get([](Files) -> int {
      ADD_FAILURE() << "opened again";
      return 0;
    });
  }

  using Files = std::span<spi::StrangerFd>;
  static bool all(Files files) {
    return files.size() == 2 && std::ranges::all_of(files, [](const auto& file) { return bool{file}; });
  }
  static std::vector<spi::StrangerFd> two() {
    std::vector<spi::StrangerFd> files;
    for (int i = 0; i < 2; ++i) files.emplace_back(spi::UniqueFd(::memfd_create("test", MFD_CLOEXEC)));
    return files;
  }
  OpenedOnce<int> memory_{two()};
};

TEST_F(OpenOnce, RemembersTheMemory) {
  EXPECT_EQ(succeeds(), 7);
  EXPECT_EQ(asks_nobody(), 7);
}

TEST_F(OpenOnce, RemembersARefusal) {
  fails(Error(Errc::corrupt_descriptor, "no memory"));
  EXPECT_THROW((void)asks_nobody(), Error);
}

TEST_F(OpenOnce, AsksAgainAfterAShortage) {
  fails(std::bad_alloc());
  for (const int number : {EMFILE, ENFILE, ENOMEM, ENOBUFS, EAGAIN}) fails(Error({number, std::generic_category()}, "mmap"));
  EXPECT_EQ(succeeds(), 7);
  EXPECT_EQ(asks_nobody(), 7);
}

TEST_F(OpenOnce, RemembersAShortageThatTookAFile) {
  EXPECT_THROW((void)memory_.get([](Files files) -> int {
    files.back().reset();
    throw std::bad_alloc();
  }),
               std::bad_alloc);
  EXPECT_THROW((void)asks_nobody(), std::bad_alloc);
}

}  // namespace
}  // namespace weir::test
