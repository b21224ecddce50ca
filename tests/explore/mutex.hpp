// SPDX-License-Identifier: Apache-2.0
#pragma once
// std::mutex, std::condition_variable, std::thread and a clock with the explorer behind them.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "engine.hpp"

namespace weir::explore {

class Mutex {
 public:
  constexpr Mutex() noexcept = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  ~Mutex() {
    if (running && state_.holder != 0) running->fail(Fault::lifetime, "a mutex is destroyed while it is held");
  }

  void lock(Where where = Where::here()) {
    if (running) return running->lock(state_, where);
    if (state_.holder != 0 && present) present->fail(Fault::deadlock, "a mutex is held after its threads are over");
    state_.holder = outside;
  }
  bool try_lock(Where where = Where::here()) {
    if (running) return running->try_lock(state_, where);
    if (state_.holder != 0) return false;
    state_.holder = outside;
    return true;
  }
  void unlock(Where where = Where::here()) {
    if (running) return running->unlock(state_, where);
    state_.holder = 0;
  }

  [[nodiscard]] Location& location() const noexcept { return state_.location; }
  [[nodiscard]] MutexState& state() noexcept { return state_; }

 private:
  static constexpr std::uint8_t outside = 255;  // of threads

  mutable MutexState state_;
};

/// Stands still but for waits that time out, which makes it as late as they would have waited.
struct SteadyClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<SteadyClock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept { return time_point(duration(running ? static_cast<rep>(running->now()) : rep{0})); }
};

/// No wait wakes without a reason; a timed one may time out whenever its thread waits.
class Condition {
 public:
  constexpr Condition() noexcept = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  void notify_one(Where where = Where::here()) noexcept {
    if (running) running->notify(state_, false, where);
  }
  void notify_all(Where where = Where::here()) noexcept {
    if (running) running->notify(state_, true, where);
  }
  void wait(std::unique_lock<Mutex>& lock, Where where = Where::here()) { (void)block(lock, nullptr, where); }
  template <class Predicate>
  void wait(std::unique_lock<Mutex>& lock, Predicate predicate, Where where = Where::here()) {
    while (!predicate()) wait(lock, where);
  }
  using Time = SteadyClock::time_point;
  std::cv_status wait_until(std::unique_lock<Mutex>& lock, Time time, Where where = Where::here()) {
    const auto until = static_cast<std::uint64_t>(time.time_since_epoch().count());
    return block(lock, &until, where) ? std::cv_status::no_timeout : std::cv_status::timeout;
  }
  template <class Predicate>
  requires std::is_invocable_r_v<bool, Predicate>
  bool wait_until(std::unique_lock<Mutex>& lock, Time until, Predicate predicate, Where where = Where::here()) {
    while (!predicate()) {
      if (wait_until(lock, until, where) == std::cv_status::timeout) return predicate();
    }
    return true;
  }
  std::cv_status wait_for(std::unique_lock<Mutex>& lock, SteadyClock::duration most, Where where = Where::here()) {
    return wait_until(lock, SteadyClock::now() + most, where);
  }
  template <class Predicate>
  requires std::is_invocable_r_v<bool, Predicate>
  bool wait_for(std::unique_lock<Mutex>& lock, SteadyClock::duration most, Predicate predicate,
                Where where = Where::here()) {
    return wait_until(lock, SteadyClock::now() + most, predicate, where);
  }

  [[nodiscard]] Location& location() const noexcept { return state_.location; }

 private:
  bool block(std::unique_lock<Mutex>& lock, const std::uint64_t* until, Where where) {
    if (running) return running->wait(state_, lock.mutex()->state(), until, where);
    if (present) present->fail(Fault::deadlock, "a wait after all threads are over");
    return false;
  }

  mutable ConditionState state_;
};

/// Begins as a further thread of the scene, and is never waited for: detach it.
class Thread {
 public:
  class id {
   public:
    id() noexcept = default;
    explicit id(std::uintptr_t number) noexcept : number_(number) {}
    friend bool operator==(const id&, const id&) = default;

   private:
    std::uintptr_t number_ = 0;
  };

  template <class F>
  explicit Thread(F body) {
    if (!running) {
      if (present) present->fail(Fault::unfinished, "a thread is started outside of the scene's threads");
      return;
    }
    auto kept = std::make_unique<F>(std::move(body));
    id_ = id(running->begin_thread(&Thread::run<F>, kept.release()));
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  void detach() noexcept {}
  [[nodiscard]] id get_id() const noexcept { return id_; }

 private:
  template <class F>
  static void run(void* object) {
    const std::unique_ptr<F> body(static_cast<F*>(object));
    (*body)();
  }
  id id_;
};

}  // namespace weir::explore
