// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <new>

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// Counts what comes back, for those who wait for it. A caller that has read done(), and afterwards finds something that
/// is still lent or on its way, may sleep in wait(). Nothing is on its way any more without being counted as done, in the
/// same step, so done() changes after that look.
class ReturnCount {
 public:
  ReturnCount() = default;
  ReturnCount(const ReturnCount&) = delete;
  ReturnCount& operator=(const ReturnCount&) = delete;

  void begin() noexcept {
    const std::scoped_lock lock(mutex_);
    ++under_way_;
  }
  void end() noexcept {
    {
      const std::scoped_lock lock(mutex_);
      ++done_;
      --under_way_;
    }
    changed_.notify_all();
  }
  [[nodiscard]] std::uint32_t done() noexcept {
    const std::scoped_lock lock(mutex_);
    return done_;
  }
  [[nodiscard]] bool some_under_way() noexcept {
    const std::scoped_lock lock(mutex_);
    return under_way_ != 0;
  }
  /// Wait until done() is no longer `seen`, but not beyond `until`; max() is endless.
  void wait(std::uint32_t seen, sync::Clock::time_point until) noexcept {
    std::unique_lock lock(mutex_);
    const auto changed = [&] { return done_ != seen; };
    if (until == sync::Clock::time_point::max()) return changed_.wait(lock, changed);
    (void)changed_.wait_until(lock, until, changed);
  }
  /// In a forked child: nobody sleeps here, and nothing is on its way. Another thread may have been inside.
  void renew() noexcept {
    new (&mutex_) sync::Mutex;
    new (&changed_) sync::Condition;
    under_way_ = 0;
  }

 private:
  sync::Mutex mutex_;  // of the counts; whoever has it takes no other lock
  sync::Condition changed_;
  std::uint32_t done_ = 0, under_way_ = 0;
};

}  // namespace weir::detail
