// SPDX-License-Identifier: Apache-2.0
#include "ipc/opened_once.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "weir/error.hpp"

namespace weir::test {
namespace {

using detail::OpenedOnce;

class OpenOnce : public testing::Test {
 protected:
  template <class Failure>
  void fails(const Failure& failure) {
    EXPECT_THROW(
        (void)memory_.get([&](spi::StrangerFd& file) -> int {
          EXPECT_TRUE(file);
          throw failure;
        }),
        Failure);
  }
  int succeeds() {
    return memory_.get([](spi::StrangerFd& file) {
      EXPECT_TRUE(file);
      return 7;
    });
  }
  int asks_nobody() {
    return memory_.get([](spi::StrangerFd&) -> int {
      ADD_FAILURE() << "opened again";
      return 0;
    });
  }
  OpenedOnce<int> memory_{spi::UniqueFd(::memfd_create("test", MFD_CLOEXEC))};
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
  for (const int number : {EMFILE, ENFILE, ENOMEM}) fails(Error({number, std::generic_category()}, "mmap"));
  EXPECT_EQ(succeeds(), 7);
  EXPECT_EQ(asks_nobody(), 7);
}

TEST_F(OpenOnce, RemembersAShortageThatTookTheFile) {
  EXPECT_THROW((void)memory_.get([](spi::StrangerFd& file) -> int {
    file.reset();
    throw std::bad_alloc();
  }),
               std::bad_alloc);
  EXPECT_THROW((void)asks_nobody(), std::bad_alloc);
}

}  // namespace
}  // namespace weir::test
