// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <new>
#include <string>

#include "base/forks.hpp"
#include "base/reports_later.hpp"
#include "ipc/channel/deadline.hpp"
#include "ipc/slices.hpp"
#include "weir/error.hpp"
#include "weir/spi/fork_link.hpp"

namespace weir::detail {

/// Lets one thread in at a time; others wait as long as their time limit allows. std::timed_mutex does that too, by a
/// call that the thread sanitizer of GCC 12 does not know. Lets nobody in in a forked child, whose parent has what this
/// guards.
class Turns {
 public:
  /// `whose` is what is guarded, as messages name it.
  explicit Turns(const char* whose) noexcept : whose_(whose) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// The turn of the thread that made it, until it is destroyed. Failures are told afterwards.
  class Turn {
   public:
    /// Throws timed_out, with the reason `why`; unsupported in a forked child.
    Turn(Turns& of, const channel::Deadline& deadline, const char* why) : of_(of) {
      of_.check_process();
      while (!take(end_of_slice(deadline))) {
        if (deadline.over()) throw Error(Errc::timed_out, why);
        check_interruption();
      }
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      const std::scoped_lock lock(of_.mutex_);
      of_.taken_ = false;
      of_.changed_.notify_one();
    }

   private:
    /// Return false when the time is over.
    bool take(const channel::Deadline& deadline) {
      std::unique_lock lock(of_.mutex_);
      const auto is_free = [this] { return !of_.taken_; };
      if (deadline.endless()) {
        of_.changed_.wait(lock, is_free);
      } else if (!of_.changed_.wait_until(lock, deadline.at(), is_free)) {
        return false;
      }
      return of_.taken_ = true;
    }

    const ReportsLater later_;
    Turns& of_;
  };

  /// Return whether this is a forked child, and somebody had a turn during the fork. What this guards is half changed
  /// then, and must not even be destroyed.
  [[nodiscard]] bool abandoned() const noexcept { return process_ != fork_generation && taken_; }

 private:
  friend class spi::ForkLink;
  // Nobody gets or ends a turn during a fork, so what the child finds in taken_ is true.
  void fork(spi::ForkMoment moment) noexcept {
    // The old one counts waiters that exist only in the parent: destroying it would wait for those.
    if (moment == spi::ForkMoment::child) new (&changed_) std::condition_variable;
    hold_across_fork(mutex_, moment);
  }
  void check_process() const {
    if (process_ != fork_generation)
      throw Error(Errc::unsupported, std::string(whose_) + ": the parent of this process has the connection");
  }

  const char* const whose_;
  const std::uint32_t process_ = fork_generation;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool taken_ = false;

  spi::ForkLink link_{*this};  // the last member, as ForkLink requires
};

}  // namespace weir::detail
