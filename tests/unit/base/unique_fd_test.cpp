// SPDX-License-Identifier: Apache-2.0
// Owners of file descriptors.
#include "weir/spi/unique_fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

#include "expect.hpp"
#include "fds.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

spi::UniqueFd null_file() { return spi::UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)); }

TEST(UniqueFd, ClosesOnce) {
  const auto before = open_fds();
  {
    spi::UniqueFd first = null_file();
    ASSERT_TRUE(first);
    spi::UniqueFd second = std::move(first);
    first = second.duplicate(100);
    EXPECT_GE(first.get(), 100);
    EXPECT_TRUE(fcntl(first.get(), F_GETFD) & FD_CLOEXEC);
    second.reset(null_file().release());
    EXPECT_FDS(before + 2);
  }
  EXPECT_FDS(before);
}

// The number may be somebody else's by then: it is worth a word, although nothing can be done about it.
TEST(UniqueFd, SaysThatItsFileWasClosedBySomebodyElse) {
  spi::UniqueFd file = null_file();
  ASSERT_EQ(close(file.get()), 0);
  file.reset();
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].where, "close");
  EXPECT_NE(reports[0].message.find("closed by somebody else"), std::string::npos);
  EXPECT_FALSE(file);
}

// Programs that the process starts do not get that one either.
TEST(UniqueFd, ADuplicateHasALowerNumberWhereThereIsNoneAsHigh) {
  const spi::UniqueFd file = null_file();
  const spi::UniqueFd copy = file.duplicate(std::numeric_limits<int>::max());
  ASSERT_TRUE(copy);
  EXPECT_TRUE(fcntl(copy.get(), F_GETFD) & FD_CLOEXEC);
}

TEST(UniqueFd, NothingHasNoDuplicate) {
  EXPECT_THROW((void)spi::UniqueFd().duplicate(), Error);
  EXPECT_TRUE(take_reports().empty());
}

}  // namespace
}  // namespace weir::test
