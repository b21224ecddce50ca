// SPDX-License-Identifier: Apache-2.0
#include "background.hpp"

#include <limits>
#include <utility>

#include "base/linger.hpp"
#include "base/start_thread.hpp"
#include "weir/spi/sync.hpp"

namespace weir::cuda {

namespace {

struct Function final : Background::Job {
  explicit Function(std::function<void()> given) : function(std::move(given)) {}
  void run() noexcept override { function(); }
  std::function<void()> function;
};

}  // namespace

void Background::run(std::function<void()> function) {
  auto job = std::make_unique<Function>(std::move(function));
  const std::scoped_lock lock(mutex_);
  start_for(jobs_ + 1);
  push(std::move(job));
  arrived_.notify_one();
}

void Background::add(std::unique_ptr<Job> job) noexcept {
  const std::scoped_lock lock(mutex_);
  push(std::move(job));
}

void Background::start() {
  const std::scoped_lock lock(mutex_);
  start_for(jobs_);
  arrived_.notify_one();
}

void Background::start_for(std::size_t jobs) {
  if (jobs <= idle_ || threads_ == limit_) return;
  try {
    weir::detail::start_thread([this] { work(); }).detach();
    ++threads_;
  } catch (...) {
    if (threads_ == 0 || limit_ > 1) throw;  // no other thread is sure to run them
  }
}

void Background::push(std::unique_ptr<Job> job) noexcept {
  Job* const added = job.get();
  (last_ ? last_->behind_ : first_) = std::move(job);
  last_ = added;
  ++jobs_;
}

void Background::work() noexcept {
  sync::name_thread(name_);
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    const bool more = arrived_.wait_for(lock, weir::detail::linger.load(), [&] { return jobs_ != 0; });
    --idle_;
    if (!more) break;
    auto job = std::move(first_);
    first_ = std::move(job->behind_);
    if (--jobs_ == 0) last_ = nullptr;
    lock.unlock();
    job->run();
    job.reset();
    lock.lock();
  }
  --threads_;
}

Background& waiters() {
  static auto& instance = *new Background("weir waiter", std::numeric_limits<std::size_t>::max());
  return instance;
}

Background& reaper() {
  static auto& instance = *new Background("weir reaper", 1);
  return instance;
}

}  // namespace weir::cuda
