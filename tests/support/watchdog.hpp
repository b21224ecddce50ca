// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ends the program when one test takes too long, with the test's name and the calls that its thread is in: a hang is a
// failure, not a mystery.

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace weir::test {

class Watchdog {
 public:
  explicit Watchdog(std::chrono::seconds limit);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Begin to watch a test of this thread; an empty name stops watching.
  void watch(std::string test);

  /// Give the test that the newest watchdog watches its whole limit anew. Tests that do one thing many times call this
  /// each time: on a busy machine they take long, although nothing hangs.
  static void note_progress() noexcept;

  /// When the running test will have taken too long.
  [[nodiscard]] std::chrono::steady_clock::time_point deadline() const;

 private:
  void run();

  static std::atomic<Watchdog*> newest_;

  Watchdog* const before_;
  std::chrono::seconds limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string test_;
  pthread_t where_{};
  std::chrono::steady_clock::time_point deadline_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weir::test
