// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

namespace weir::test {

/// A thread in a call that waits, and that throws nothing. The constructor returns when the thread sleeps.
class Waiting {
 public:
  template <class Call>
  explicit Waiting(Call call)
      : thread_([this, call] {
          id_ = gettid();
          call();
        }) {
    while (!sleeps()) std::this_thread::yield();  // the watchdog ends it if that never is
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { thread_.join(); }

 private:
  [[nodiscard]] bool sleeps() const {
    std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/stat");
    std::string text;
    std::getline(file, text);
    return text.find(") S ") != std::string::npos;
  }

  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

}  // namespace weir::test
