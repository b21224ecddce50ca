// SPDX-License-Identifier: Apache-2.0
#include "base/file_closer.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "base/forks.hpp"
#include "base/linger.hpp"
#include "base/loaded_code.hpp"
#include "base/never_ends.hpp"
#include "base/start_thread.hpp"
#include "weir/error.hpp"
#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_threads = 8;
constexpr std::size_t most_ahead = 64;              // files that may wait before a caller has to wait, too
constexpr std::chrono::milliseconds patience{100};  // a close that takes longer is stuck
constexpr std::chrono::milliseconds quick{1};       // added to what callers may wait, for each file that is closed
constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

class Closer {
  using Lock = std::unique_lock<std::mutex>;

 public:
  Closer() { waiting_.reserve(2 * most_ahead); }

  void take(spi::UniqueFd file) noexcept {
    Lock lock(mutex_);
    try {
      waiting_.push_back({file.get(), handed_ + 1});
      ++handed_;
      (void)file.release();
    } catch (const std::bad_alloc&) {
      lock.unlock();
      (void)file.release();
      return report({make_error_code(std::errc::not_enough_memory), "file of another process",
                     "it stays open, leaked: std::bad_alloc"});
    }
    attend(lock);
    if (waiting() > most_ahead) catch_up(lock);
  }

  void settle() noexcept {
    Lock lock(mutex_);
    if (waiting() != 0) attend(lock);
    settle(lock);
  }

  [[nodiscard]] std::size_t unclosed() noexcept {
    const Lock lock(mutex_);
    return waiting() + working();
  }

  // A file whose close is stuck remains the parent's alone. A file that still waits is the child's, too, and the
  // child's copy keeps open what other processes want to see closed. So the fork first lets as many files as possible
  // be closed.
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::before) {
      Lock lock(mutex_);
      settle(lock);
      (void)lock.release();
      return;
    }
    if (moment == spi::ForkMoment::child) {
      new (&arrived_) std::condition_variable;  // the old ones count waiters that exist only in the parent
      new (&ended_) std::condition_variable;
      threads_ = 0;
      work_ = {};
    }
    mutex_.unlock();
  }

 private:
  struct Waiting {
    int file;
    std::uint64_t number;  // counts files in the order in which they were handed over
  };
  struct Work {
    std::uint64_t number = 0;  // of the file that the thread closes; 0 for none
    Clock::time_point since;
  };

  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size() - first_; }
  [[nodiscard]] std::size_t working() const noexcept {
    return static_cast<std::size_t>(std::ranges::count_if(work_, [](const Work& work) { return work.number != 0; }));
  }
  [[nodiscard]] std::size_t idle() const noexcept { return threads_ - working(); }
  [[nodiscard]] static bool at_it(const Work& work) noexcept {
    return work.number != 0 && Clock::now() - work.since < patience;
  }
  /// Return whether a thread is at work, is not stuck, and so will come back for the files that wait.
  [[nodiscard]] bool attended() const noexcept { return std::ranges::any_of(work_, at_it); }
  /// Return whether some thread will close the files that wait, now or when the other threads turn out to be stuck.
  [[nodiscard]] bool served() const noexcept { return idle() != 0 || attended(); }

  // Callers wait as long as files are closed quickly. Files whose closing takes long, but not so long that it is stuck,
  // hold callers up for about `patience` in all, and for `quick` more with each of them. Then files are left to pile
  // up.
  void catch_up(Lock& lock) noexcept {
    const auto begun = Clock::now();
    (void)ended_.wait_for(lock, allowance_, [&] { return waiting() <= most_ahead || !served(); });
    allowance_ -= std::min(allowance_, Clock::now() - begun);
  }

  // Make sure that the files that wait get closed: by a thread that is at work and not stuck, or by another thread if
  // that one gets stuck.
  void attend(Lock& lock) noexcept {
    const bool soon = attended();
    if (idle() != 0) {
      if (!soon) arrived_.notify_one();
      return;
    }
    if (threads_ == most_threads) return soon ? void() : tell_once(lock);
    try {
      start_thread([this] { run(); }).detach();  // it begins once it gets the lock
      ++threads_;
    } catch (const std::exception& error) {  // the next caller tries again
      lock.unlock();
      report({{}, "thread that closes files of other processes", error.what()});
      lock.lock();
    }
  }

  void tell_once(Lock& lock) noexcept {
    if (std::exchange(told_, true)) return;
    lock.unlock();
    report({{}, "files of other processes", "they block whoever closes them; further ones stay open"});
    lock.lock();
  }

  void run() noexcept {
    sync::name_thread("weir files");
    const auto process = fork_generation;
    Lock lock(mutex_);
    for (;;) {
      if (waiting() == 0) {
        told_ = false;
        if (!arrived_.wait_for(lock, linger.load(), [&] { return waiting() != 0; })) break;
      } else if (attended()) {
        (void)arrived_.wait_until(lock, first_to_be_late());
      } else if (!close_next(lock, process)) {
        return;  // the failure sink called fork(), and this is the child
      }
    }
    --threads_;
  }

  bool close_next(Lock& lock, std::uint32_t process) noexcept {
    const Waiting next = waiting_[first_++];
    if (waiting() == 0) {
      waiting_.clear();
      first_ = 0;
    } else if (first_ >= most_ahead && first_ >= waiting()) {
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(std::exchange(first_, 0)));
    }
    Work& mine = *std::ranges::find(work_, 0U, &Work::number);
    mine = {next.number, Clock::now()};
    if (waiting() != 0 && idle() == 0) attend(lock);
    lock.unlock();
    { const spi::UniqueFd closed(next.file); }
    lock.lock();
    if (fork_generation != process) return false;
    mine.number = 0;
    ++closed_;
    allowance_ = std::min<Clock::duration>(allowance_ + quick, patience);
    ended_.notify_all();
    return true;
  }

  [[nodiscard]] Clock::time_point first_to_be_late() const noexcept {
    auto first = Clock::now() + patience;
    for (const Work& work : work_) {
      if (at_it(work)) first = std::min(first, work.since + patience);
    }
    return first;
  }

  /// Return the number of the first file that is neither closed nor stuck, or `never`.
  [[nodiscard]] std::uint64_t first_to_come() const noexcept {
    auto first = waiting() != 0 && served() ? waiting_[first_].number : never;
    for (const Work& work : work_) {
      if (at_it(work)) first = std::min(first, work.number);
    }
    return first;
  }

  // As in catch_up(), files whose closing takes long hold the caller up for a bounded time, however many they are.
  void settle(Lock& lock) noexcept {
    const auto last = handed_, before = closed_;
    for (const auto until = Clock::now() + (most_threads + 1) * patience; first_to_come() <= last;) {
      const auto limit = until + (closed_ - before) * quick;
      if (Clock::now() >= limit) break;
      (void)ended_.wait_until(lock, std::min<Clock::time_point>(first_to_be_late(), limit));
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_, ended_;
  std::vector<Waiting> waiting_;  // the files from index first_ on
  std::size_t first_ = 0;
  std::uint64_t handed_ = 0, closed_ = 0;  // files so far
  Clock::duration allowance_ = patience;  // how long callers may still wait; grows with every file that is closed
  std::array<Work, most_threads> work_;
  std::size_t threads_ = 0;  // how many exist; those without work wait for some
  bool told_ = false;        // it was reported that all threads are stuck
};

/// What hostile files of one sort keep from closing is no file of the other. Pipes are most of what honest processes
/// give: leases and ready points.
struct Closers {
  Closer pipes, others;
};

Closers& closers() { return never_ends<Closers>(); }

// The kernel answers without the file's help.
bool is_pipe(const spi::UniqueFd& file) noexcept {
  struct statx status;
  return ::statx(file.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0 &&
         S_ISFIFO(status.stx_mode);
}

// Last, because a thread that holds another lock may hand a file over.
const ForkStep closer_step(ForkStep::last, [](spi::ForkMoment moment) noexcept {
  closers().pipes.fork(moment);
  closers().others.fork(moment);
});

}  // namespace

void close_apart(spi::UniqueFd file) noexcept {
  if (!file) return;
  keep_code_loaded();
  (is_pipe(file) ? closers().pipes : closers().others).take(std::move(file));
}

void close_apart(std::vector<spi::UniqueFd>& files, std::size_t first) noexcept {
  while (files.size() > first) {
    close_apart(std::move(files.back()));
    files.pop_back();
  }
}

void settle_closes() noexcept {
  closers().pipes.settle();
  closers().others.settle();
}

std::size_t files_to_close() noexcept { return closers().pipes.unclosed() + closers().others.unclosed(); }

}  // namespace weir::detail

void weir::spi::StrangerFd::reset() noexcept { detail::close_apart(std::move(file_)); }
