// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/link.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "base/forks.hpp"
#include "base/reports_later.hpp"
#include "ipc/channel/dropped.hpp"
#include "ipc/channel/imported.hpp"
#include "ipc/channel/watcher.hpp"
#include "ipc/file_pairs.hpp"
#include "ipc/own_failure.hpp"
#include "ipc/packets.hpp"
#include "weir/error.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail::channel {
namespace {

// Say what has happened to a connection that no call waits at. Later calls say so, too, if there are any.
void tell(const char* what, const std::exception_ptr& why) noexcept {
  try {
    std::rethrow_exception(why);
  } catch (...) {
    report_own_failure(what);
  }
}

spi::UniqueFd made_bell() {
  spi::UniqueFd made(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made) fail_descriptor("channel", "eventfd", errno);
  return made;
}

// The kernel sends no packet that is larger than what the socket may hold unread, and keeps some of that for itself.
std::size_t largest_sent(int socket) {
  constexpr int own = 32;
  int bytes = 0;
  socklen_t size = sizeof bytes;
  if (::getsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, &size) != 0) fail_socket("getsockopt", errno);
  return static_cast<std::size_t>(std::max(bytes - own, 0));
}

}  // namespace

Link::Link(spi::StrangerFd&& socket, std::uint32_t window, Borrows what, std::optional<uid_t> user,
           std::uint32_t most_sent)
    : bell_(made_bell()),
      socket_(socket.trust()),
      process_(fork_generation),
      user_(user),
      most_sent_(most_sent),
      packet_(largest_sent(socket_.get())),
      borrower_(window, what) {
  incoming_files_.reserve(most_sent_files);
}

bool Link::inherited() const noexcept { return process_ != fork_generation; }

// The child has no part in the connection. Its copy of the socket would keep the peer from noticing the parent's end.
// These two files are as old as the link, so they are open in the child; nothing is certain of the other members. The
// locks are made anew for the thread that forked, which may have done so within a call of the link.
void Link::fork(spi::ForkMoment moment) noexcept {
  if (moment != spi::ForkMoment::child) return;
  socket_.leave_to_parent();
  bell_.reset();
  new (&state_) std::mutex;
  new (&changed_) std::condition_variable;
}

void Link::check_process() const {
  if (inherited()) throw Error(Errc::unsupported, "ipc::Channel: the parent of this process has the connection");
}

void Link::check_open() const {
  if (closed_) throw Error(Errc::closed, "ipc::Channel: the channel is closed");
}

void Link::check_peer() const {
  if (ended_) std::rethrow_exception(ended_);
  if (peer_closed_) throw Error(Errc::peer_gone, "ipc::Channel: the peer has closed its channel");
}

ipc::Parcel Link::receive(const Stream& stream, const Deadline& deadline, const Wanted& wanted) {
  check_process();
  auto& preferred = stream.state().device();
  struct Refused {
    explicit Refused(Link& of) : link(of) {}
    Refused(const Refused&) = delete;
    Refused& operator=(const Refused&) = delete;
    ~Refused() {
      if (some) link.pay_debts();
    }
    Link& link;
    bool some = false;
    Dropped dropped;
  } refused(*this);  // ends without the lock
  Lock lock(state_);
  for (Waiting waiting{deadline};; wait(lock, waiting, false)) {
    check_open();
    while (wanted && !arrived_.empty()) {
      borrower_.make_room();  // what is wanted is taken, and nothing may fail in between
      if (wanted(arrived_.front().payload)) break;
      refuse_first(refused.dropped);
      refused.some = true;
    }
    if (!arrived_.empty()) break;
    check_peer();
  }
  borrower_.take(arrived_.front().segment_number);
  Arrived next = std::move(arrived_.front());
  arrived_.pop_front();
  const bool owes = borrower_.owes_much();
  lock.unlock();
  if (owes) pay_debts();
  ipc::Parcel parcel;
  try {
    const auto memory = next.segment->open(preferred, socket_.get());
    parcel.buffer = import_buffer(memory, next.offset, next.size, stream, shared_from_this(), next.number);
    parcel.access = memory.segment->read_only ? ipc::Access::read_only : ipc::Access::read_write;
  } catch (...) {
    give_back(next.number);
    throw;
  }
  parcel.payload = std::move(next.payload);
  if (next.ready) next.ready->order(stream);  // last: a call that fails leaves no wait behind
  return parcel;
}

void Link::close() noexcept {
  if (inherited()) return;
  Dropped dropped;
  {
    const Lock lock(state_);
    if (std::exchange(closed_, true)) return;
    try {
      refuse_arrived(dropped);
    } catch (const std::exception&) {  // no memory: they are given back when there is some
      shortage_ = std::current_exception();
    }
    changed_.notify_all();
    (void)::eventfd_write(bell_.get(), 1);  // and nobody reads it
  }
  pay_debts();
  if (!ask_watcher()) end_if_unneeded();
}

ipc::ChannelStats Link::stats() {
  check_process();
  const Lock lock(state_);
  return {lender_.live(), borrower_.held(), arrived_.size(), lender_.told(), borrower_.segments(), peer_};
}

bool Link::refuse_what_came() {
  check_process();
  Dropped dropped;
  {
    const Lock lock(state_);
    refuse_arrived(dropped);
  }
  pay_debts();
  return !dropped.arrived.empty();
}

void Link::ask_who_it_is() noexcept { ask_for_senders(socket_.get(), true); }

void Link::list_lent(LentList& lent) {
  if (inherited()) return;
  const Lock lock(state_);
  lender_.for_each([&](const Lent& one) { lent.add(one.buffer, peer_); });
}

void Link::check() {
  const Lock lock(state_);
  if (ended_) std::rethrow_exception(ended_);
}

Link::Capacity Link::capacity() {
  const Lock lock(state_);
  const bool left = ended_ || peer_closed_ || closed_;
  return {left ? 0 : lender_.room(), lender_.live(), left, ended_ != nullptr};
}

void Link::observe(std::weak_ptr<LinkObserver> observer) {
  {
    const Lock lock(state_);
    observer_ = std::move(observer);
    observed_ = true;
  }
  ask_to_attend(shared_from_this());
}

void Link::change_later() noexcept {
  if (inherited()) return;
  {
    const Lock lock(state_);
    if (std::exchange(changes_later_, true) || attending_) return;
  }
  if (ask_watcher()) return;
  const Lock lock(state_);
  changes_later_ = false;
}

void Link::give_back(std::uint64_t number) noexcept {
  if (inherited()) return;
  Lock lock(state_);
  borrower_.end(number);
  if (ended_) return;
  const bool first = borrower_.to_release() == 1;
  // While there are more buffers here, releases are collected; else the peer may be waiting for this one.
  const bool now = borrower_.owes_much() || (arrived_.empty() && borrower_.held() == 0);
  const bool closed = closed_;
  lock.unlock();
  if (now) pay_debts();
  if (!now && first) tell_soon();  // and of more, if more come until then
  if (now && closed && !ask_watcher()) end_if_unneeded();
}

bool Link::retire(const spi::Segment* segment) noexcept {
  if (inherited()) return false;
  const Lock lock(state_);
  bool tells = false;
  for (const ipc::Access access : {ipc::Access::read_write, ipc::Access::read_only}) {
    const auto number = lender_.ended({segment, access});
    if (!number) continue;
    try {
      retired_.push_back(*number);
      tells = true;
    } catch (const std::exception&) {  // no memory: the peer keeps the segment open until the connection ends
    }
  }
  return tells;
}

std::uint32_t Link::attend(Reads reads) noexcept {
  if (inherited()) return 0;
  std::shared_ptr<LinkObserver> observer;
  std::exception_ptr broken, shortage;
  {
    const ReportsLater later;
    Lock lock(state_);
    attending_ = true;
    changes_later_ = false;
    observer = observer_.lock();
    if (reading_) {
      pass_to_reader({});
    } else if (!ended_) {
      const bool was_short = shortage_ != nullptr;
      read(lock, reads);
      broken = ended_;
      if (!was_short) shortage = shortage_;
    }
  }
  if (broken) tell("ipc::Channel: a connection ends", broken);
  if (shortage) tell("ipc::Channel: what came is read later", shortage);
  pay_debts();
  if (observer) observer->link_changed();
  if (inherited()) return 0;  // one of these called fork(), and this is the child
  end_if_unneeded();
  const Lock lock(state_);
  attending_ = false;
  if (ended_) return 0;
  watched_ = needs_watcher() && !watcher_passed_ && !shortage_;
  return (watched_ ? std::uint32_t{EPOLLIN} : 0) | (full_ ? std::uint32_t{EPOLLOUT} : 0);
}

// End a closed connection that nobody here needs. The peer gets back what it has sent and this side has not read, and
// what it has not been told of: a peer that does not read keeps no connection.
void Link::end_if_unneeded() noexcept {
  Dropped dropped;
  const Lock lock(state_);
  if (!closed_ || lender_.live() + borrower_.held() != 0) return;
  if (!full_ && (!told_closed_ || borrower_.to_release() != 0)) return;
  try {
    check_open();
  } catch (...) {
    end(std::current_exception(), dropped);
  }
}

bool Link::owes() noexcept {
  const Lock lock(state_);
  return changes_later_ || ((owes_ || shortage_) && !ended_);
}

void Link::not_watched() noexcept {
  const Lock lock(state_);
  watched_ = false;
}

bool Link::hung_up() const noexcept {
  if (inherited()) return true;
  pollfd entry{socket_.get(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// Return whether somebody has to read, or to notice the peer's end, while no call does.
bool Link::needs_watcher() const noexcept {
  return lender_.live() != 0 || (closed_ ? borrower_.held() != 0 : observed_);
}

// Needs the lock. The thread that reads sees to the watcher afterwards.
void Link::pass_to_reader(Attended attended) noexcept {
  watcher_passed_ = true;
  if (!passed_) passed_.emplace(std::move(attended));
}

// Without the lock, because a failure is reported. The watcher may attend to the link meanwhile; then the socket is
// waited for once more than it need be.
void Link::watch(Lock& lock) noexcept {
  const auto self = weak_from_this().lock();
  if (!self) return;
  watched_ = true;
  lock.unlock();
  const bool done = attend_when_readable(self);
  lock.lock();
  if (!done) watched_ = false;
}

void Link::tell_soon() noexcept {
  if (!ask_watcher()) pay_debts();
}

// Called without locks, because a failure is reported. Return false then.
bool Link::ask_watcher() noexcept {
  const auto self = weak_from_this().lock();
  return self && attend_soon(self);
}

}  // namespace weir::detail::channel
