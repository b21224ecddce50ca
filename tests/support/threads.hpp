// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads of tests. A std::thread that is not joined when an assertion or an exception leaves its test ends the whole
// program, and so does an exception that leaves the thread itself. Here both fail the test that runs.

#include <gtest/gtest.h>

#include <concepts>
#include <exception>
#include <thread>
#include <type_traits>
#include <utility>

namespace weir::test {

/// A std::thread that joins when it ends, and whose exceptions fail the test.
class Thread {
 public:
  template <class Body>
  requires(!std::same_as<std::remove_cvref_t<Body>, Thread>) explicit Thread(Body&& body)
      : thread_(guarded(std::forward<Body>(body))) {}
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = delete;
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  ~Thread() {
    if (thread_.joinable()) thread_.join();
  }

  void join() { thread_.join(); }

 private:
  template <class Body>
  static auto guarded(Body&& body) {
    return [body = std::forward<Body>(body)]() mutable {
      try {
        body();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "a thread of this test threw: " << error.what();
      }
    };
  }

  std::thread thread_;
};

/// Does something when its scope is left, however it is. One that opens a gate comes after the threads and futures that
/// wait for the gate, so that joining them ends.
template <class Action>
class OnLeaving {
 public:
  explicit OnLeaving(Action action) : action_(std::move(action)) {}
  OnLeaving(const OnLeaving&) = delete;
  OnLeaving& operator=(const OnLeaving&) = delete;
  ~OnLeaving() { action_(); }

 private:
  Action action_;
};

}  // namespace weir::test
