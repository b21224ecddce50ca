// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace weir::test {

/// A folder for the sockets of one test. Its path is short enough for a socket's.
class Folder {
 public:
  Folder() {
    char path[] = "/tmp/weir-names-XXXXXX";
    if (::mkdtemp(path) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
    path_ = path;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + '/' + name; }
  /// By the C library, because an iterator of std::filesystem ends the process when its memory is made to fail.
  [[nodiscard]] std::size_t files() const {
    DIR* const all = ::opendir(path_.c_str());
    if (all == nullptr) throw std::system_error(errno, std::generic_category(), "opendir");
    std::size_t count = 0;
    while (const dirent* const one = ::readdir(all)) {
      const std::string_view name = one->d_name;
      count += name == "." || name == ".." ? 0U : 1U;
    }
    ::closedir(all);
    return count;
  }

 private:
  std::string path_;
};

}  // namespace weir::test
