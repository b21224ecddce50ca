// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kills a process right before one of its system calls, by ptrace.

#include <sys/types.h>

#include <cstdint>
#include <future>
#include <map>
#include <thread>

namespace weir::test {

/// Counts the system calls of all threads of a child process from now on, and kills the process right before one of
/// them. Until this has ended, nobody else may wait for the process, because a waiter would get its stops.
class Tracer {
 public:
  /// `kill_before` counts from 1, and 0 means never. Throws std::system_error when the process may not be traced.
  Tracer(pid_t process, std::uint64_t kill_before);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  ~Tracer();
  /// Wait until the process has ended, and return how many calls it began. The process stays to be waited for.
  std::uint64_t finish();

 private:
  void attach();
  void run();
  void stopped(pid_t thread, int status);

  const pid_t process_;
  const std::uint64_t kill_before_;
  std::uint64_t calls_ = 0;
  enum class Where { in_an_earlier_call, outside, inside };
  std::map<pid_t, Where> threads_;
  std::promise<void> attached_;
  std::thread thread_;  // the only one that may use ptrace
};

}  // namespace weir::test
