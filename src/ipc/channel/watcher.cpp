// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/watcher.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/forks.hpp"
#include "base/library_thread.hpp"
#include "base/linger.hpp"
#include "base/never_ends.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/file_pairs.hpp"
#include "weir/error.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail::channel {
namespace {

constexpr char purpose[] = "channel";

class Watcher {
  using Lock = std::unique_lock<std::mutex>;
  using LinkPtr = std::shared_ptr<Link>;

 public:
  void ask(const LinkPtr& link) {
    const Lock lock(mutex_);
    if (!epoll_) start();
    asked_.push_back(link);
    if (asked_.size() == 1 && ::eventfd_write(bell_.get(), 1) != 0) fail_descriptor(purpose, "eventfd_write", errno);
  }

  // Waking the thread would cost as much as the rest of a call that sends one buffer.
  void ask_when_readable(const LinkPtr& link) {
    const Lock lock(mutex_);
    if (!epoll_) start();
    if (working_) {  // what it saw of the link may be older than this, so it looks again before it sleeps
      asked_.push_back(link);
      return;
    }
    const auto found = watched_.find(link->socket());
    const int error = arm(link, EPOLLIN | (found == watched_.end() ? 0 : found->second.events));
    if (error != 0) fail_descriptor(purpose, "epoll_ctl", error);
  }

  bool settle() {
    Lock lock(mutex_);
    if (!epoll_ || thread_ == std::this_thread::get_id()) return false;
    const auto mine = ++rounds_asked_;
    if (::eventfd_write(bell_.get(), 1) != 0) return false;
    round_over_.wait(lock, [&] { return rounds_ >= mine; });
    return true;
  }

  // The child does not have the thread. The links remain the parent's.
  void fork(spi::ForkMoment moment) noexcept {
    if (moment == spi::ForkMoment::before) return mutex_.lock();
    if (moment == spi::ForkMoment::child) {
      static auto& of_parents = *new std::vector<std::vector<LinkPtr>>;
      for (auto& [file, entry] : watched_) asked_.push_back(std::move(entry.link));
      of_parents.push_back(std::exchange(asked_, {}));
      watched_.clear();
      epoll_.reset();
      bell_.reset();
      thread_ = {};
      working_ = false;
      new (&round_over_) std::condition_variable;  // the old one counts waiters that exist only in the parent
    }
    mutex_.unlock();
  }

 private:
  void start() {
    spi::UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) fail_descriptor(purpose, "epoll_create1", errno);
    spi::UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell) fail_descriptor(purpose, "eventfd", errno);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = bell.get();
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.get(), &event) != 0) fail_descriptor(purpose, "epoll_ctl", errno);
    try {
      std::thread thread([this] { run(); });  // it begins once it gets the lock
      thread_ = thread.get_id();
      thread.detach();
    } catch (const std::system_error& error) {
      throw Error(error.code(), std::string("channel: no thread to attend to it: ") + error.what());
    }
    epoll_ = std::move(epoll);
    bell_ = std::move(bell);
  }

  void run() noexcept {
    sync::name_thread("weir channels");
    const int linger_now = static_cast<int>(linger.load().count());  // milliseconds
    std::array<epoll_event, 64> events;
    const LibraryThread mark;
    const auto process = fork_generation;
    std::vector<LinkPtr> due;
    Lock lock(mutex_);
    for (;;) {
      const auto round = rounds_asked_;  // read before the links are
      const int epoll = epoll_.get();
      const bool more = rounds_asked_ != rounds_ || !asked_.empty();
      const int timeout = more ? 0 : watched_.empty() ? linger_now : -1;
      working_ = false;
      lock.unlock();
      due.clear();  // may be the end of links
      const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), timeout);
      const int error = errno;
      if (fork_generation != process) return;  // the end of a link called fork(), and this is the child
      lock.lock();
      working_ = true;
      if (count < 0 && error != EINTR) {
        report({{error, std::generic_category()}, "channel: epoll_wait", "memory that peers borrowed stays lent"});
        break;
      }
      if (round == rounds_ && count == 0 && asked_.empty() && watched_.empty()) break;
      if (round != rounds_) {
        for (const auto& [file, entry] : watched_) asked_.push_back(entry.link);
      }
      for (int i = 0; i < count; ++i) {
        const int file = events[static_cast<std::size_t>(i)].data.fd;
        eventfd_t rings = 0;
        if (file == bell_.get()) (void)::eventfd_read(file, &rings);
        const auto found = watched_.find(file);
        if (found == watched_.end()) continue;
        asked_.push_back(found->second.link);
        found->second.events = 0;
      }
      due.swap(asked_);
      for (const LinkPtr& link : due) {
        lock.unlock();
        const auto wanted = link->attend();
        if (fork_generation != process) return;
        lock.lock();
        const int failed = wanted == 0 ? forget(link->socket()) : arm(link, wanted);
        if (failed == 0) continue;
        lock.unlock();
        tell_unwatched(*link, failed);
        lock.lock();
      }
      if (round == rounds_) continue;
      rounds_ = round;
      round_over_.notify_all();
      if (rounds_asked_ == rounds_ && asked_.empty() && watched_.empty()) break;
    }
    rounds_ = rounds_asked_;
    round_over_.notify_all();
    const auto left = std::exchange(watched_, {});  // ends without the lock
    epoll_.reset();
    bell_.reset();
    thread_ = {};
    working_ = false;
    lock.unlock();
  }

  // Called without the lock of this class, under which no link's lock is taken.
  static void tell_unwatched(Link& link, int error) noexcept {
    link.not_watched();
    report({{error, std::generic_category()}, "channel: epoll_ctl", "what the peer gives back stays lent until the next call"});
  }

  // `due` still has the link, so it does not end here. Its socket, if it has fired, stays in the set and fires no more:
  // so the next arm() is quick. The set loses it when it is closed.
  [[nodiscard]] int forget(int file) noexcept {
    const auto found = watched_.find(file);
    if (found == watched_.end()) return 0;
    if (found->second.events != 0) (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, file, nullptr);
    watched_.erase(found);
    return 0;
  }

  // Return 0, or the number of an error.
  [[nodiscard]] int arm(const LinkPtr& link, std::uint32_t wanted) noexcept {
    const int file = link->socket();
    auto entry = watched_.find(file);
    const bool is_new = entry == watched_.end();
    try {
      if (is_new) entry = watched_.emplace(file, link).first;
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
    epoll_event event{};
    event.events = wanted | EPOLLONESHOT;
    event.data.fd = file;
    const auto put = [&](int how) { return ::epoll_ctl(epoll_.get(), how, file, &event) == 0; };
    if (put(EPOLL_CTL_MOD) || (errno == ENOENT && put(EPOLL_CTL_ADD))) {
      entry->second.events = wanted;
      return 0;
    }
    const int error = errno;
    if (is_new) watched_.erase(entry);
    return error;
  }

  struct Watched {
    explicit Watched(LinkPtr watched) : link(std::move(watched)) {}
    LinkPtr link;
    std::uint32_t events = 0;  // waited for; 0 when one of them has come
  };

  std::mutex mutex_;
  std::vector<LinkPtr> asked_;
  std::map<int, Watched> watched_;  // by socket
  spi::UniqueFd epoll_, bell_;      // exist while the thread does
  std::thread::id thread_;
  bool working_ = false;  // the thread does not wait
  std::condition_variable round_over_;
  std::uint64_t rounds_asked_ = 0, rounds_ = 0;  // a round attends to all links that are watched
};

Watcher& watcher() { return never_ends<Watcher>(); }

const ForkStep step(10, [](spi::ForkMoment moment) noexcept { watcher().fork(moment); });

}  // namespace

void attend_soon(const std::shared_ptr<Link>& link) noexcept {
  try {
    watcher().ask(link);
  } catch (const std::exception& error) {
    report({{}, "channel", error.what()});
  }
}

bool attend_when_readable(const std::shared_ptr<Link>& link) noexcept {
  try {
    watcher().ask_when_readable(link);
    return true;
  } catch (const std::exception& error) {
    report({{}, "channel", error.what()});
    return false;
  }
}

bool settle_channels() { return watcher().settle(); }

}  // namespace weir::detail::channel
