// SPDX-License-Identifier: Apache-2.0
#include "crash.hpp"

#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <array>

namespace weir::test {
namespace {

constexpr std::array signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int most_calls = 64;

extern "C" void print_crash(int signal) {
  const char* const name = sigabbrev_np(signal);
  constexpr char begins[] = "\n[ CRASH ] SIG", ends[] = ", called from:\n";
  (void)!::write(STDERR_FILENO, begins, sizeof begins - 1);
  if (name) (void)!::write(STDERR_FILENO, name, strlen(name));
  (void)!::write(STDERR_FILENO, ends, sizeof ends - 1);
  std::array<void*, most_calls> calls{};
  backtrace_symbols_fd(calls.data(), backtrace(calls.data(), most_calls), STDERR_FILENO);
  (void)raise(signal);  // SA_RESETHAND: by default from here on
}

}  // namespace

void print_crashes() noexcept {
  std::array<void*, 1> first{};
  (void)backtrace(first.data(), 1);  // loads what it needs, which takes memory
  for (const int signal : signals) {
    struct sigaction now = {}, handler = {};
    if (sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    handler.sa_handler = print_crash;
    handler.sa_flags = SA_RESETHAND;
    (void)sigaction(signal, &handler, nullptr);
  }
}

}  // namespace weir::test
