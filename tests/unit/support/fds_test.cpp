// SPDX-License-Identifier: Apache-2.0
// Which descriptors are counted.

#include "fds.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "folder.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test {
namespace {

spi::UniqueFd make_file(const std::string& path) {
  return spi::UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

TEST(OpenFds, AreCounted) {
  const Folder folder;
  const auto before = open_fds();
  const auto file = make_file(folder / "file");
  ASSERT_TRUE(file);
  EXPECT_FDS(before + 1);
}

// A driver's thread writes to its cache at times of its own.
TEST(OpenFds, OfADriversCacheAreNot) {
  const Folder folder;
  const auto before = open_fds();
  for (const char* cache : {"mesa_shader_cache", "mesa_shader_cache_db", ".nv", "nvidia/GLCache"}) {
    const auto path = folder / cache;
    ASSERT_TRUE(std::filesystem::create_directories(path));
    const auto file = make_file(path + "/shader.tmp");
    ASSERT_TRUE(file);
    EXPECT_FDS(before) << cache;
  }
}

}  // namespace
}  // namespace weir::test
