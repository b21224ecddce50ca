// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>

#include "ipc/channel/deadline.hpp"
#include "weir/error.hpp"

namespace weir::detail::names {

/// Lets one thread in at a time; others wait as long as their time limit allows. std::timed_mutex does that too, by a
/// call that the thread sanitizer of GCC 12 does not know.
class Turns {
 public:
  /// The turn of the thread that made it, until it is destroyed.
  class Turn {
   public:
    /// Throws timed_out, with the reason `why`.
    Turn(Turns& of, const channel::Deadline& deadline, const char* why) : of_(of) {
      std::unique_lock lock(of_.mutex_);
      const auto is_free = [this] { return !of_.taken_; };
      if (deadline.endless()) {
        of_.changed_.wait(lock, is_free);
      } else if (!of_.changed_.wait_until(lock, deadline.at(), is_free)) {
        throw Error(Errc::timed_out, why);
      }
      of_.taken_ = true;
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      const std::scoped_lock lock(of_.mutex_);
      of_.taken_ = false;
      of_.changed_.notify_one();
    }

   private:
    Turns& of_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool taken_ = false;
};

}  // namespace weir::detail::names
