// SPDX-License-Identifier: Apache-2.0
#include "watchdog.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace weir::test {

constinit std::atomic<Watchdog*> Watchdog::newest_{nullptr};

Watchdog::Watchdog(std::chrono::seconds limit)
    : before_(newest_.exchange(this)), limit_(limit), thread_([this] { run(); }) {}

Watchdog::~Watchdog() {
  newest_ = before_;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::watch(std::string test) {
  {
    const std::lock_guard lock(mutex_);
    test_ = std::move(test);
    where_ = pthread_self();
    deadline_ = std::chrono::steady_clock::now() + limit_;
  }
  changed_.notify_one();
}

void Watchdog::note_progress() noexcept {
  Watchdog* const one = newest_;
  if (!one) return;
  const std::lock_guard lock(one->mutex_);
  one->deadline_ = std::chrono::steady_clock::now() + one->limit_;
}

std::chrono::steady_clock::time_point Watchdog::deadline() const {
  const std::lock_guard lock(mutex_);
  return deadline_;
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (test_.empty()) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() >= deadline_) {
      std::fprintf(stderr, "\n[ WATCHDOG ] %s has been running for %lld s; aborting\n", test_.c_str(),
                   static_cast<long long>(limit_.count()));
      pthread_kill(where_, SIGABRT);  // print_crashes() says what it is in
      std::this_thread::sleep_for(std::chrono::seconds{10});
      std::abort();  // the signal was blocked
    } else {
      changed_.wait_until(lock, deadline_);
    }
  }
}

}  // namespace weir::test
