// SPDX-License-Identifier: Apache-2.0
#pragma once
// A second process for a row. Forked, which is allowed because the rows use host memory alone.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

namespace weir::bench {

class Process {
 public:
  template <class Body>
  explicit Process(Body body) : id_(::fork()) {
    if (id_ < 0) throw std::runtime_error("fork failed");
    if (id_ > 0) return;
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the second process: %s\n", error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Wait until it ends by itself.
  ~Process() { (void)::waitpid(id_, nullptr, 0); }

 private:
  pid_t id_;
};

}  // namespace weir::bench
