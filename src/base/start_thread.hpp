// SPDX-License-Identifier: Apache-2.0
#pragma once
// How every thread of the library is started.

#include <pthread.h>

#include <csignal>
#include <utility>

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// While an object of this class exists, this thread takes no signal that is meant for the application, and a thread
/// that it starts never does. Open stay the signals of a thread's own faults, which the kernel would turn into a silent
/// end if they were blocked; SIGABRT, so that raise() ends the process as abort() does; and SIGPROF, by which profilers
/// look at whatever thread runs. What is blocked already stays blocked.
class SignalsLeftToApplication {
 public:
  SignalsLeftToApplication() noexcept {
    sigset_t others;
    sigfillset(&others);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF}) sigdelset(&others, own);
    (void)pthread_sigmask(SIG_BLOCK, &others, &before_);  // fails for no mask that is a mask
  }
  ~SignalsLeftToApplication() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsLeftToApplication(const SignalsLeftToApplication&) = delete;
  SignalsLeftToApplication& operator=(const SignalsLeftToApplication&) = delete;

 private:
  sigset_t before_;
};

/// Start a thread of the library, which runs `body`. An application that lets one of its threads wait for signals
/// blocks them in all others of its own, and knows nothing of this one. The caller has made sure of keep_code_loaded().
/// Throws what std::thread does.
template <class Body>
[[nodiscard]] sync::Thread start_thread(Body body) {
  const SignalsLeftToApplication quiet;
  return sync::Thread(std::move(body));
}

}  // namespace weir::detail
