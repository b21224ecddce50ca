// SPDX-License-Identifier: Apache-2.0
#pragma once
// Holders for tests, on a thread of this process or in one of its own.

#include <stdexcept>
#include <string>

#include "folder.hpp"
#include "spawn.hpp"
#include "threads.hpp"
#include "weir/holder.hpp"

namespace weir::test {

class HolderThread {
 public:
  explicit HolderThread(const ipc::HolderOptions& options = {})
      : holder_(path(), options), thread_([this] { holder_.run(); }) {}
  ~HolderThread() { holder_.stop(); }
  HolderThread(const HolderThread&) = delete;
  HolderThread& operator=(const HolderThread&) = delete;
  [[nodiscard]] std::string path() const { return folder_ / "holder"; }
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
  [[nodiscard]] std::string path() const { return folder_ / "holder"; }
  void kill() { child_.kill(); }

 private:
  Folder folder_;
  Child child_{WEIR_CHILD_DIR "/hold_child", {"hold", path()}};
};

}  // namespace weir::test
