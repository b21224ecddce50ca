// SPDX-License-Identifier: Apache-2.0
#include "background.hpp"

#include <limits>

#include "base/linger.hpp"
#include "base/start_thread.hpp"
#include "weir/spi/sync.hpp"

namespace weir::cuda {

void Background::run(std::function<void()> job) {
  const std::scoped_lock lock(mutex_);
  jobs_.push_back(std::move(job));
  if (jobs_.size() > idle_ && threads_ < limit_) {
    try {
      weir::detail::start_thread([this] { work(); }).detach();
      ++threads_;
    } catch (...) {
      if (threads_ == 0 || limit_ > 1) {  // no other thread is sure to run the job
        jobs_.pop_back();
        throw;
      }
    }
  }
  arrived_.notify_one();
}

void Background::work() noexcept {
  sync::name_thread(name_);
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    const bool more = arrived_.wait_for(lock, weir::detail::linger.load(), [&] { return !jobs_.empty(); });
    --idle_;
    if (!more) break;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;
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
