// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <atomic>
#include <thread>

#include "sleeping.hpp"

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
    while (!sleeps(id_)) std::this_thread::yield();  // the watchdog ends it if that never is
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() { thread_.join(); }

 private:
  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

}  // namespace weir::test
