// SPDX-License-Identifier: Apache-2.0
#pragma once
// Holders for tests: a folder for the socket, and a holder on a thread of this process or in one of its own.

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "spawn.hpp"
#include "threads.hpp"
#include "weir/holder.hpp"

namespace weir::test {

/// A new folder, removed at the end.
class Folder {
 public:
  Folder() {
    if (!::mkdtemp(name_.data())) throw std::runtime_error("mkdtemp failed");
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(name_, ignored);
  }
  [[nodiscard]] std::string path() const { return name_ + "/holder"; }

 private:
  std::string name_ = (std::filesystem::temp_directory_path() / "weir-XXXXXX").string();
};

class HolderThread {
 public:
  explicit HolderThread(const ipc::HolderOptions& options = {})
      : holder_(folder_.path(), options), thread_([this] { holder_.run(); }) {}
  ~HolderThread() { holder_.stop(); }
  HolderThread(const HolderThread&) = delete;
  HolderThread& operator=(const HolderThread&) = delete;
  [[nodiscard]] std::string path() const { return folder_.path(); }
  [[nodiscard]] ipc::HolderStats stats() const { return holder_.stats(); }

 private:
  Folder folder_;
  ipc::Holder holder_;
  Thread thread_;
};

class HolderProcess {
 public:
  HolderProcess() {
    if (child_.line() != "serves") throw std::runtime_error("the holder does not serve");
  }
  [[nodiscard]] std::string path() const { return folder_.path(); }
  void kill() { child_.kill(); }

 private:
  Folder folder_;
  Child child_{WEIR_CHILD_DIR "/hold_child", {"hold", folder_.path()}};
};

}  // namespace weir::test
