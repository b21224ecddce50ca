// SPDX-License-Identifier: Apache-2.0
// How a connection makes packets and sends them.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "base/reports_later.hpp"
#include "ipc/channel/dropped.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/channel/links.hpp"
#include "ipc/exporting.hpp"
#include "ipc/one_user.hpp"
#include "ipc/packets.hpp"
#include "ipc/peer.hpp"
#include "weir/error.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail::channel {

struct Link::Placed {
  const Outgoing* out;
  SharedPlace place;
  [[nodiscard]] std::size_t files() const noexcept {  // if the peer has to be told of the segment
    return std::max<std::size_t>(place.segment->parts().size(), 1);
  }
};

namespace {

constexpr const char* sending = "ipc::Channel::send";
static_assert(most_files <= most_sent_files);

// Does not put a mark on the stream, unless others put work there: then buffers that are sent one after another have the
// same point.
bool has_work(const Stream& stream) {
  auto& timeline = stream.state();
  if (timeline.has_work_from_outside()) return !stream.record().done();
  timeline.throw_if_lost();
  return !timeline.reached(timeline.issued());
}

}  // namespace

std::vector<Link::Placed> Link::place(std::span<const Outgoing> buffers) {
  std::vector<Placed> placed;
  placed.reserve(buffers.size());
  for (const Outgoing& one : buffers) placed.push_back({&one, shared_place(sending, *one.buffer)});
  return placed;
}

std::size_t Link::send(std::span<const Outgoing> buffers, const Stream& stream, const Deadline& deadline) {
  check_process();
  (void)stream.state();
  for (const Outgoing& one : buffers) {
    check_shareable(sending, *one.buffer, one.access);
    if (one.payload.size() > most_payload)
      throw Error(Errc::invalid_argument, std::string(sending) + ": a payload of " +
                                              std::to_string(one.payload.size()) + " bytes; it may have " +
                                              std::to_string(most_payload));
  }
  for (const Outgoing& one : buffers) one.buffer->order_after_uses(stream);
  const auto placed = place(buffers);
  const bool waits = has_work(stream);
  Attended attended;
  std::size_t done = 0;
  std::exception_ptr failure;
  while (done < buffers.size() && !failure) {
    try {
      done += send_some(std::span(placed).subspan(done), waits, stream, deadline);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  watch_what_is_lent(std::move(attended));  // of a call that fails in the end, too
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (done == 0 || error.code() != Errc::timed_out) throw;
  }
  return done;
}

// Have the watcher read what the peer gives back, and notice its end, while no call does.
void Link::watch_what_is_lent(Attended attended) noexcept {
  Lock lock(state_);
  if (watched_ || attending_ || lender_.live() == 0) return;
  if (reading_) {
    pass_to_reader(std::move(attended));
  } else {
    watch(lock);
  }
}

std::size_t Link::try_send(std::span<const Outgoing> buffers, const Stream& stream) {
  const Deadline now(std::chrono::milliseconds{0});
  const auto placed = place(buffers);
  const bool waits = has_work(stream);
  std::size_t done = 0;
  const auto takes_next = [&] {
    const Lock lock(state_);
    return !(ended_ || peer_closed_ || closed_) && peer_takes(placed[done]);
  };
  try {  // a failure after the first packet is met again by the next call
    while (done < buffers.size() && takes_next())
      done += send_some(std::span(placed).subspan(done), waits, stream, now);
  } catch (const Error& error) {
    if (error.code() == Errc::timed_out) {
      await_room_in_socket();
    } else if (done == 0) {
      throw;
    }
  } catch (...) {
    if (done == 0) throw;
  }
  return done;
}

// Have the watcher come back when the socket takes more. It looks by itself if it is here already.
void Link::await_room_in_socket() noexcept {
  {
    const Lock lock(state_);
    full_ = true;
    if (attending_) return;
  }
  if (ask_watcher()) return;
  const Lock lock(state_);
  full_ = false;  // so that the next call asks again
}

// Return whether the peer takes the buffer now.
bool Link::peer_takes(const Placed& next) const {
  return lender_.room() != 0 && lender_.takes_files(next.files());
}

// Send one packet. Return how many buffers it has: none if another thread was faster.
std::size_t Link::send_some(std::span<const Placed> buffers, bool waits, const Stream& stream,
                            const Deadline& deadline) {
  std::optional<ReportsLater> later;  // as long as no other thread can send
  Dropped dropped;
  std::exception_ptr failure;
  std::size_t count = 0;
  {
    Lock lock(state_);
    Waiting waiting{deadline};
    for (; !(ended_ || peer_closed_ || closed_) && !peer_takes(buffers.front()); wait(lock, waiting, false)) {}
    await_turn(lock, deadline);
    sending_ = true;
    later.emplace();
    try {
      count = compose(lock, buffers, waits, stream);
      packet_.empty() ? unsent(dropped) : put_on_socket(lock, deadline);  // debts alone may fill it
    } catch (...) {
      failure = std::current_exception();
      if (!lock.owns_lock()) lock.lock();
      unsent(dropped);
    }
    sending_ = false;
    changed_.notify_all();
  }
  pay_debts();  // what other threads left to this one
  if (failure) std::rethrow_exception(failure);
  return count;
}

void Link::await_turn(Lock& lock, const Deadline& deadline) {
  while (sending_) {
    deadline.check("another thread is sending");
    if (deadline.endless()) {
      changed_.wait(lock);
    } else {
      (void)changed_.wait_until(lock, deadline.at());
    }
  }
}

// Make a packet of what the peer is owed, and of as many buffers as fit. Return how many those are. The caller has
// set sending_.
std::size_t Link::compose(Lock& lock, std::span<const Placed> buffers, bool waits, const Stream& stream) {
  compose_debts();
  const auto unlocked = [&](auto&& work) {  // nobody else tells and lends meanwhile, but the peer may end
    lock.unlock();
    auto made = work();
    lock.lock();
    check_process();
    check_peer();
    return made;
  };
  check_open();
  check_peer();
  std::size_t count = 0;
  PagePoint ready;
  for (; count < buffers.size() && peer_takes(buffers[count]); ++count) {
    const Outgoing& out = *buffers[count].out;
    if (!packet_.has_room(out.payload.size(), buffers[count].files())) break;
    const SharedPlace& place = buffers[count].place;
    const ToldOf segment{place.segment, granted(*place.segment, out.access)};
    told_now_.reserve(told_now_.size() + 1);
    const auto told = lender_.tell(segment);
    if (told.first) {
      told_now_.push_back(segment);
      check_one_user(sending, *place.segment->device, socket_.get());
      auto described = unlocked([&] {
        tell_of_its_end(*place.segment);
        return describe_memory(*place.segment, segment.access);
      });
      if (described.files.size() > 1) lender_.tell_files(described.files.size());
      std::ranges::move(described.files, std::back_inserter(files_));
      (void)packet_.add(Segment{told.number, encode(described.wire)});
    }
    if (waits && ready.value == 0) {
      ready = unlocked([&] { return record(stream); });
      if (tells_page_now_) (void)packet_.add(Page{});
    }
    lent_now_.push_back(0);
    undone_.reserve(lent_now_.capacity());
    lent_now_.back() = lender_.lend({out.buffer->share(), out.mark, place.keeps});
    (void)packet_.add(Grant{lent_now_.back(), told.number, place.offset, out.buffer->size(), ready, out.payload});
  }
  return count;
}

// Return the present point of the stream. The peer has to be told of the page before the first one.
PagePoint Link::record(const Stream& stream) {
  if (!points_) {
    const auto peer = user_ ? user_ : user_of(socket_.get());
    if (!peer) fail_socket("getsockopt", errno);
    points_ = SentPoints::of(*peer);
  }
  const PagePoint point = points_->record(stream);
  if (!told_page_) {
    files_.push_back(points_->file());
    tells_page_now_ = true;
  }
  return point;
}

void Link::compose_debts() {
  packet_.clear();
  tells_page_now_ = false;
  files_.clear();
  lent_now_.clear();
  told_now_.clear();
  greets_now_ = to_greet_ && packet_.add(Hello{protocol_version, borrower_.window()});
  borrower_.tell(packet_);
  for (retired_now_ = 0; retired_now_ < retired_.size(); ++retired_now_) {
    if (!packet_.add(Retire{retired_[retired_now_]})) break;
  }
  leaves_now_ = closed_ && !told_closed_ && packet_.add(Bye{});
}

std::ptrdiff_t Link::send_composed(std::span<const int> files) noexcept {
  return send_packet(socket_.get(), packet_.bytes(), files, false, greets_now_ ? Sender::named : Sender::unnamed);
}

void Link::sent() noexcept {
  borrower_.told();
  retired_.erase(retired_.begin(), retired_.begin() + static_cast<std::ptrdiff_t>(std::min(retired_now_, retired_.size())));
  to_greet_ = to_greet_ && !greets_now_;
  told_page_ = told_page_ || tells_page_now_;
  told_closed_ = told_closed_ || leaves_now_;
  full_ = false;
}

void Link::unsent(Dropped& dropped) noexcept {
  borrower_.untold();
  if (ended_ || inherited()) return;  // an end has ended all grants, too
  if (!lent_now_.empty()) dropped.begin_return();
  bool answered = false;  // by the peer, which has seen nothing of the packet
  for (const std::uint64_t number : lent_now_) {
    if (number == 0) continue;
    auto undone = lender_.unlend(number);
    if (undone) undone_.push_back(std::move(*undone));
    answered = answered || !undone;
  }
  dropped.lent.swap(undone_);
  for (const ToldOf& segment : told_now_) lender_.untell(segment);
  if (!answered) return;
  try {
    violated("it released or took buffers that were not sent");
  } catch (...) {
    end(std::current_exception(), dropped);
  }
}

// Send the packet that was made. The caller undoes what it says when this throws.
void Link::put_on_socket(Lock& lock, const Deadline& deadline) {
  std::array<int, most_files> numbers{};
  std::ranges::transform(files_, numbers.begin(), [](const spi::UniqueFd& file) { return file.get(); });
  for (Waiting waiting{deadline};;) {
    lock.unlock();
    const auto count = send_composed(std::span(numbers).first(files_.size()));
    const int error = errno;
    lock.lock();
    if (count >= 0) return sent();
    if (error != EAGAIN) fail_socket("sendmsg", error);  // if the peer is gone, what it sent may still be read
    wait(lock, waiting, true);
    check_open();
    check_peer();
  }
}

// Have the watcher tell the peer what it is owed, because nobody else may come. It looks by itself if it is here already.
void Link::owe(Lock& lock) noexcept {
  if (std::exchange(owes_, true) || attending_) return;
  lock.unlock();
  const bool asked = ask_watcher();
  lock.lock();
  if (!asked) owes_ = false;
}

// Tell the peer what it is owed, without waiting. A thread that is sending does so afterwards.
void Link::pay_debts() noexcept {
  if (inherited()) return;
  const ReportsLater later;
  Dropped dropped;
  Lock lock(state_);
  while (!sending_ && !ended_) {
    try {
      compose_debts();
    } catch (const std::exception&) {  // no memory
      unsent(dropped);
      return owe(lock);
    }
    owes_ = false;
    if (packet_.empty()) {
      full_ = false;
      return;
    }
    sending_ = true;
    lock.unlock();
    const auto count = send_composed({});
    const int error = errno;
    lock.lock();
    sending_ = false;
    changed_.notify_all();
    if (count >= 0) {
      sent();
      continue;
    }
    unsent(dropped);
    if (error == EPIPE || error == ECONNRESET) return;  // the peer is gone, which is found by reading
    if (error != EAGAIN) return owe(lock);              // the system is short of memory, or of room for files
    const bool asks = !std::exchange(full_, true);
    lock.unlock();
    if (!asks || ask_watcher()) return;
    lock.lock();
    full_ = false;  // so that the next call asks again
    return;
  }
}

}  // namespace weir::detail::channel
