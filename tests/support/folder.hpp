// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
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
  [[nodiscard]] std::size_t files() const {
    const auto all = std::filesystem::directory_iterator(path_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  std::string path_;
};

}  // namespace weir::test
