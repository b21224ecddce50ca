// SPDX-License-Identifier: Apache-2.0
// What the end of a holder leaves at its path.
#include "ipc/hold/place.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "folder.hpp"

namespace weir::test {
namespace {

using detail::hold::Place;

TEST(HoldPlace, EndsWithItsSocket) {
  const Folder folder;
  const std::string path = folder / "holder";
  std::optional<Place> place(std::in_place, path, false);
  EXPECT_TRUE(std::filesystem::is_socket(path));
  place.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(HoldPlace, LeavesTheFileOfAnother) {
  const Folder folder;
  const std::string path = folder / "holder";
  std::optional<Place> place(std::in_place, path, false);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  std::ofstream(path) << "another's";
  place.reset();
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace weir::test
