// SPDX-License-Identifier: Apache-2.0
#include "ipc/leases.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/file_closer.hpp"
#include "base/forks.hpp"
#include "base/library_thread.hpp"
#include "base/linger.hpp"
#include "base/never_ends.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/lent_out.hpp"
#include "memory/lent.hpp"
#include "memory/lent_returns.hpp"
#include "stream/release_queue.hpp"
#include "weir/error.hpp"
#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {
namespace {

constexpr char purpose[] = "lease";

struct Lease {
  spi::StrangerFd end;  // the read end of its pipe; other processes have the write end
  Buffer buffer;
  std::vector<Buffer> more;
  std::list<Lease>::iterator self{};
};

void watch(const spi::UniqueFd& epoll, int file, std::uint32_t events, Lease* lease) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = lease;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, file, &event) != 0) fail_descriptor(purpose, "epoll_ctl", errno);
}

// One thread waits for all leases to end. The thread and its files exist while there are leases.
class Leases {
  using Lock = std::unique_lock<std::mutex>;

 public:
  spi::UniqueFd grant(Buffer buffer, std::vector<Buffer> more = {}) {
    auto [mine, theirs] = make_pipe(purpose);
    std::list<Lease> one;  // destroyed without the lock if this throws
    one.push_back({std::move(mine), std::move(buffer), std::move(more)});
    Lease& lease = one.front();
    lease.self = one.begin();
    const Lock lock(mutex_);
    if (!epoll_) start();
    watch(epoll_, lease.end.get(), 0, &lease);  // reports a hang-up always, and written bytes never
    granted_.splice(granted_.end(), one);
    return std::move(theirs);
  }

  bool settle() {
    Lock lock(mutex_);
    if (!to_ask()) return false;
    lock.unlock();
    settle_closes();  // so that this process's own copies are closed
    lock.lock();
    if (!to_ask()) return false;
    const auto mine = ++asked_;
    if (::eventfd_write(bell_.get(), 1) != 0) return false;
    answered_.wait(lock, [&] { return answer_ >= mine; });
    return true;
  }

  void list(LentList& lent) {
    constexpr std::int32_t unknown = 0;
    const Lock lock(mutex_);
    for (const Lease& lease : granted_) {
      lent.add(lease.buffer, unknown);
      for (const Buffer& buffer : lease.more) lent.add(buffer, unknown);
    }
  }

  [[nodiscard]] std::size_t granted() {
    const Lock lock(mutex_);
    return granted_.size();
  }

  // The child does not have the thread. The leases remain the parent's, and so do the buffers that they keep.
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::before) return mutex_.lock();
    if (moment == spi::ForkMoment::child) {
      static auto& of_parents = *new std::list<Lease>;
      of_parents.splice(of_parents.end(), granted_);
      epoll_.reset();
      bell_.reset();
      watcher_ = {};
      new (&answered_) std::condition_variable;  // the old one counts waiters that exist only in the parent
    }
    mutex_.unlock();
  }

 private:
  [[nodiscard]] bool to_ask() const noexcept { return epoll_ && watcher_ != std::this_thread::get_id(); }

  void start() {
    spi::UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) fail_descriptor(purpose, "epoll_create1", errno);
    spi::UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell) fail_descriptor(purpose, "eventfd", errno);
    watch(epoll, bell.get(), EPOLLIN, nullptr);
    try {
      std::thread watcher([this] { run(); });  // it begins once it gets the lock
      watcher_ = watcher.get_id();
      watcher.detach();
    } catch (const std::system_error& error) {
      throw Error(error.code(), std::string("lease: no thread to wait for its end: ") + error.what());
    }
    epoll_ = std::move(epoll);
    bell_ = std::move(bell);
  }

  void run() noexcept {
    sync::name_thread("weir leases");
    std::array<epoll_event, 64> events;
    constexpr int most = static_cast<int>(events.size());
    const int linger_now = static_cast<int>(linger.load().count());  // milliseconds
    const LibraryThread mark;
    const auto process = fork_generation;
    Lock lock(mutex_);
    for (int timeout = linger_now;;) {
      const auto asked = asked_;  // read before the kernel is asked
      const int epoll = epoll_.get();
      lock.unlock();
      const int count = ::epoll_wait(epoll, events.data(), most, timeout);
      const int error = errno;
      lock.lock();
      for (int i = 0; i < count && fork_generation == process; ++i) {
        end(static_cast<Lease*>(events[static_cast<std::size_t>(i)].data.ptr), lock);
      }
      if (fork_generation != process) return;  // the end of a buffer called fork(), and this is the child
      if (count < 0 && error != EINTR) return give_up(error, lock);
      const bool looked = count >= 0 && count < most;
      const bool answers = looked && asked != answer_;
      if (answers) {
        answer_ = asked;
        answered_.notify_all();
      }
      if (granted_.empty() && asked_ == answer_ && (count == 0 || answers)) break;
      timeout = asked_ != answer_ ? 0 : granted_.empty() ? linger_now : -1;
    }
    epoll_.reset();
    bell_.reset();
    watcher_ = {};
  }

  // Called when somebody has closed files that belong to this class. Memory that is leased stays leased.
  void give_up(int error, Lock& lock) noexcept {
    answer_ = asked_;
    answered_.notify_all();
    (void)epoll_.release();
    (void)bell_.release();
    watcher_ = {};
    lock.unlock();
    report({{error, std::generic_category()},
            "lease: epoll_wait",
            "memory that other processes opened is not used again"});
  }

  void end(Lease* ended, Lock& lock) noexcept {
    if (!ended) {
      eventfd_t rings = 0;
      (void)::eventfd_read(bell_.get(), &rings);
      return;
    }
    // Closing the file is not enough, because a forked child may have a copy.
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, ended->end.get(), nullptr);
    const Returning returning;
    std::list<Lease> over;
    over.splice(over.end(), granted_, ended->self);
    lock.unlock();
    over.clear();
    lock.lock();
  }

  std::mutex mutex_;
  std::list<Lease> granted_;
  spi::UniqueFd epoll_;  // exists while the thread does
  spi::UniqueFd bell_;
  std::thread::id watcher_;
  std::condition_variable answered_;
  std::uint64_t asked_ = 0, answer_ = 0;
};

Leases& leases() { return never_ends<Leases>(); }

const ForkStep step(0, [](spi::ForkMoment moment) noexcept { leases().fork(moment); });

}  // namespace

spi::UniqueFd grant_lease(Buffer buffer) {
  answer_for_lent(lent_out);
  return leases().grant(std::move(buffer));
}

spi::UniqueFd grant_lease(std::vector<Buffer> buffers) {
  answer_for_lent(lent_out);
  Buffer last = std::move(buffers.back());
  buffers.pop_back();
  return leases().grant(std::move(last), std::move(buffers));
}

bool settle_leases() { return !in_release() && leases().settle(); }

void list_leases(LentList& lent) { leases().list(lent); }

std::size_t granted_leases() { return leases().granted(); }

}  // namespace weir::detail
