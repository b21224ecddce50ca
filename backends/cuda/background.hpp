// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads for work that must not run where it comes up: blocking waits, and the destruction of objects that a driver
// callback may not destroy.

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>

namespace weir::cuda {

/// Runs jobs on at most `limit` threads called `name`. A thread is started when all others are busy, and ends when it
/// has nothing to do. Never destroyed, so that process exit has nothing to join.
class Background {
 public:
  /// Something to do, with room for its place in the queue.
  class Job {
   public:
    Job() = default;
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    virtual ~Job() = default;
    virtual void run() noexcept = 0;

   private:
    friend Background;
    std::unique_ptr<Job> behind_;
  };

  Background(const char* name, std::size_t limit) : name_(name), limit_(limit) {}
  /// Queue a function. Throws when there is no memory for it, or when the first thread for it cannot be started; then
  /// it does not run.
  void run(std::function<void()> function);
  /// Queue a job. It may stay there until `start` is called.
  void add(std::unique_ptr<Job> job) noexcept;
  /// See to it that there is a thread for all that is queued. Throws when the first one cannot be started; then the
  /// jobs run once a later call, or run(), has started it.
  void start();

 private:
  void start_for(std::size_t jobs);
  void push(std::unique_ptr<Job> job) noexcept;
  void work() noexcept;

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::unique_ptr<Job> first_;
  Job* last_ = nullptr;
  std::size_t jobs_ = 0;
  const char* name_;
  std::size_t limit_;
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
};

/// The threads for jobs that wait: as many as there are waits.
Background& waiters();
/// The one thread for jobs that only destroy something.
Background& reaper();

}  // namespace weir::cuda
