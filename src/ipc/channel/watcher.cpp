// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/watcher.hpp"

#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <new>
#include <span>
#include <system_error>
#include <utility>

#include "base/forks.hpp"
#include "base/never_ends.hpp"
#include "ipc/attendant.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/file_pairs.hpp"
#include "weir/error.hpp"

namespace weir::detail::channel {
namespace {

constexpr char purpose[] = "channel";

void report_unwatched(int error) noexcept {
  report({{error, std::generic_category()},
          "channel: epoll_ctl",
          "what the peer gives back stays lent until that succeeds"});
}

using LinkPtr = std::shared_ptr<Link>;

/// Links in the order in which they were added, each of them once. Takes no memory: the links are chained by one of
/// their hooks.
class LinkQueue {
 public:
  using Hook = QueueHook Link::*;
  explicit LinkQueue(Hook hook) noexcept : hook_(hook) {}

  [[nodiscard]] bool empty() const noexcept { return !first_; }
  void push(LinkPtr link) noexcept {
    Link* const added = link.get();
    if (std::exchange((added->*hook_).queued, true)) return;
    (last_ ? (last_->*hook_).next : first_) = std::move(link);
    last_ = added;
  }
  [[nodiscard]] LinkPtr pop() noexcept {
    LinkPtr link = std::move(first_);
    QueueHook& hook = *link.*hook_;
    first_ = std::move(hook.next);
    if (!first_) last_ = nullptr;
    hook.queued = false;
    return link;
  }
  [[nodiscard]] LinkQueue take() noexcept { return std::exchange(*this, LinkQueue(hook_)); }

 private:
  Hook hook_;
  LinkPtr first_;
  Link* last_ = nullptr;
};

class Watcher final : public Attendant {
 public:
  Watcher() noexcept
      : Attendant({.purpose = purpose,
                   .thread = "weir channels",
                   .no_thread = "no thread to attend to it",
                   .wait = "channel: epoll_wait",
                   .lost = "memory that peers borrowed stays lent"}) {}

  void ask(const LinkPtr& link) {
    const Lock lock(mutex_);
    need_thread();
    push(link);
  }

  // Waking the thread would cost as much as the rest of a call that sends one buffer. Return 0, or why the socket is not
  // watched yet: then the thread tries again.
  [[nodiscard]] int ask_when_readable(const LinkPtr& link) {
    const Lock lock(mutex_);
    need_thread();
    if (is_busy()) {  // what it saw of the link may be older than this, so it looks again before it sleeps
      asked_.push(link);
      return 0;
    }
    const auto found = watched_.find(link->socket());
    const int error = arm(link, EPOLLIN | (found == watched_.end() ? 0 : found->second.events));
    if (error != 0) push(link);
    return error;
  }

  void keep() {
    const Lock lock(mutex_);
    need_thread();
    ++kept_;
  }
  void let_go() noexcept {
    const Lock lock(mutex_);
    if (--kept_ == 0 && is_idle()) (void)files().ring();  // else it would not find out
  }

  bool settle() {
    Lock lock(mutex_);
    return is_elsewhere() && await_round(lock);
  }

 private:
  [[nodiscard]] bool is_idle() const noexcept override {
    return kept_ == 0 && asked_.empty() && late_.empty() && watched_.empty();
  }
  [[nodiscard]] bool is_due() const noexcept override { return !asked_.empty(); }
  [[nodiscard]] bool is_late() const noexcept override { return !late_.empty(); }

  [[nodiscard]] bool sees_all() const noexcept override { return true; }

  void serve(std::span<const epoll_event> ready, bool round, Lock& lock) noexcept override {
    for (const epoll_event& event : ready) {
      const auto found = watched_.find(static_cast<int>(event.data.u64));
      if (found != watched_.end()) found->second.events = 0;
    }
    LinkQueue due = asked_.take(), late = late_.take();  // what is added meanwhile comes next time
    while (!due.empty()) {
      if (!attend(due.pop(), lock)) return;
    }
    while (!late.empty()) {
      if (!attend(late.pop(), lock, Reports::no)) return;
    }
    for (const epoll_event& event : ready) {
      const auto found = watched_.find(static_cast<int>(event.data.u64));
      if (found != watched_.end() && !attend(found->second.link, lock)) return;
    }
    if (!round) return;
    for (auto at = watched_.begin(); at != watched_.end();) {
      const int file = at->first;
      if (!attend(at->second.link, lock, Reports::yes, Reads::all)) return;
      at = watched_.upper_bound(file);
    }
  }

  enum class Reports { no, yes };
  using Reads = Link::Reads;

  // Links end, and failures are reported, without the lock: both may call anything. Return false in a child process
  // that such a call has made.
  bool attend(LinkPtr link, Lock& lock, Reports reports = Reports::yes, Reads reads = Reads::some) noexcept {
    const auto process = fork_generation;
    lock.unlock();
    const auto wanted = link->attend(reads);
    if (fork_generation != process) return false;
    const bool owes = link->owes();
    lock.lock();
    const int failed = wanted == 0 ? forget(link->socket()) : arm(link, wanted);
    if (owes || failed != 0) late_.push(link);
    lock.unlock();
    if (failed != 0) tell_unwatched(*link, failed, reports);
    link.reset();
    if (fork_generation != process) return false;
    lock.lock();
    return true;
  }

  // Called without the lock of this class, under which no link's lock is taken.
  static void tell_unwatched(Link& link, int error, Reports reports) noexcept {
    link.not_watched();
    if (reports == Reports::yes) report_unwatched(error);
  }

  // The caller owns the link, so it does not end here. Its socket, if it has fired, stays in the set and fires no more:
  // so the next arm() is quick. The set loses it when it is closed.
  [[nodiscard]] int forget(int file) noexcept {
    const auto found = watched_.find(file);
    if (found == watched_.end()) return 0;
    if (found->second.events != 0) files().remove(file);
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
    const auto key = static_cast<std::uint64_t>(file);
    int error = files().change(file, wanted | EPOLLONESHOT, key);
    if (error == ENOENT) error = files().add(file, wanted | EPOLLONESHOT, key);
    if (error == 0) {
      entry->second.events = wanted;
    } else if (is_new) {
      watched_.erase(entry);
    }
    return error;
  }

  // The links remain the parent's. Nothing is taken from their counts, which threads of the parent may have been
  // changing, and no memory is needed.
  void leave_to_parent() noexcept override {
    of_parents_.merge(watched_);
    new (&asked_) LinkQueue(&Link::in_asked);
    new (&late_) LinkQueue(&Link::in_late);
    kept_ = 0;
  }

  void give_up(Lock& lock) noexcept override {
    const auto left = std::exchange(watched_, {});
    lock.unlock();  // before the links end
  }

  struct Watched {
    explicit Watched(LinkPtr watched) : link(std::move(watched)) {}
    LinkPtr link;
    std::uint32_t events = 0;  // waited for; 0 when one of them has come
  };

  void push(const LinkPtr& link) {
    const bool wakes = asked_.empty();
    asked_.push(link);
    if (wakes && !files().ring()) fail_descriptor(purpose, "eventfd_write", errno);
  }

  LinkQueue asked_{&Link::in_asked};
  // Of those whose peers are owed what the system did not send, or whose sockets it did not watch.
  LinkQueue late_{&Link::in_late};
  std::map<int, Watched> watched_;  // by socket
  std::multimap<int, Watched> of_parents_;
  std::size_t kept_ = 0;  // how many `Attended` there are
};

Watcher& watcher() { return never_ends<Watcher>(); }

const ForkStep channels_step(10, [](spi::ForkMoment moment) noexcept { watcher().fork(moment); });

}  // namespace

Attended::Attended() : process_(fork_generation) { watcher().keep(); }

Attended::~Attended() {
  if (process_ == fork_generation) watcher().let_go();
}

void ask_to_attend(const std::shared_ptr<Link>& link) { watcher().ask(link); }

bool attend_soon(const std::shared_ptr<Link>& link) noexcept {
  try {
    watcher().ask(link);
    return true;
  } catch (const std::exception& error) {
    report({{}, "channel", error.what()});
    return false;
  }
}

bool attend_when_readable(const std::shared_ptr<Link>& link) noexcept {
  try {
    if (const int error = watcher().ask_when_readable(link); error != 0) report_unwatched(error);
    return true;
  } catch (const std::exception& error) {
    report({{}, "channel", error.what()});
    return false;
  }
}

bool settle_channels() { return watcher().settle(); }

}  // namespace weir::detail::channel
