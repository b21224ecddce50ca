// SPDX-License-Identifier: Apache-2.0
#include "ipc/channel/link.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "ipc/channel/imported.hpp"
#include "ipc/channel/links.hpp"
#include "ipc/channel/watcher.hpp"
#include "ipc/exporting.hpp"
#include "ipc/foreign_memory.hpp"
#include "ipc/packets.hpp"
#include "ipc/ready_point.hpp"
#include "weir/error.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::detail::channel {
namespace {

constexpr std::uint32_t most_window = 65536;

[[noreturn]] void time_out(const char* what) { throw Error(Errc::timed_out, std::string("ipc::Channel: ") + what); }

}  // namespace

/// Buffers and segments that a peer has given back. Their ends may take locks of anybody.
struct Link::Dropped {
  std::vector<Buffer> lent;
  std::vector<ForeignMemory> foreign;
  std::deque<Arrived> arrived;
};

int Deadline::milliseconds() const noexcept {
  if (endless_) return -1;
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(rest.count(), 0, 1 << 30));
}

spi::Ref<spi::Segment> ForeignSegment::open(spi::DeviceState& preferred) {
  const std::scoped_lock lock(opening_);
  if (refusal_) std::rethrow_exception(refusal_);
  if (!segment_) {
    try {
      auto& device = device_of(wire, preferred);
      segment_ = open_memory(device, wire, std::move(file_));
    } catch (...) {
      file_.reset();
      refusal_ = std::current_exception();
      throw;
    }
  }
  return segment_;
}

Link::Link(spi::UniqueFd socket, std::uint32_t window)
    : socket_(std::move(socket)), process_(fork_generation), borrower_(window) {}

bool Link::inherited() const noexcept { return process_ != fork_generation; }

// The child has no part in the connection. Its copy of the socket would keep the peer from noticing the parent's end.
void Link::fork(spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::child) socket_.reset();
}

void Link::check_open() const {
  if (closed_) throw Error(Errc::closed, "ipc::Channel: the channel is closed");
}

void Link::check_peer() const {
  if (ended_) std::rethrow_exception(ended_);
  if (peer_closed_) throw Error(Errc::peer_gone, "ipc::Channel: the peer has closed its channel");
}

// ---- reading --------------------------------------------------------------------------------------------------------

// Wait until something has changed. One thread at a time waits at the socket and reads; the others wait for that one.
void Link::wait(Lock& lock, const Deadline& deadline, bool for_room_in_socket) {
  if (deadline.passed()) time_out(for_room_in_socket ? "the peer does not read" : "nothing came in time");
  const bool reads = !reading_;
  if (!reads && !for_room_in_socket) {
    if (deadline.endless()) return changed_.wait(lock);
    (void)changed_.wait_until(lock, deadline.at());
    return;
  }
  if (reads) reading_ = true;
  lock.unlock();
  pollfd entry{socket_.get(), 0, 0};
  if (reads) entry.events |= POLLIN;
  if (for_room_in_socket) entry.events |= POLLOUT;
  const int count = ::poll(&entry, 1, deadline.milliseconds());
  if (reads && count > 0 && (entry.revents & ~POLLOUT) != 0) read();
  lock.lock();
  if (!reads) return;
  reading_ = false;
  changed_.notify_all();
  if (std::exchange(watcher_passed_, false)) ask_watcher();
}

// Read what has come. The caller has set reading_.
void Link::read() noexcept {
  constexpr int at_once = 16;  // packets; a peer that sends without end gets no thread for itself
  for (int i = 0; i < at_once; ++i) {
    Dropped dropped;
    std::vector<spi::StrangerFd> files;
    Arrival arrival;
    std::exception_ptr refusal;
    try {
      files.reserve(most_sent_files);
      arrival = receive_packet(socket_.get(), incoming_, files);
      if (arrival.error == EAGAIN || arrival.error == EINTR) return;
      if (arrival.error == ECONNRESET) continue;  // said once; what the peer sent before is still to be read
      if (arrival.bytes < 0) fail_socket("recvmsg", arrival.error);
      if (arrival.bytes == 0) throw Error(Errc::peer_gone, "ipc::Channel: the other process is gone");
      if (arrival.cut) violated("a packet is too large");
    } catch (...) {
      refusal = std::current_exception();
    }
    const Lock lock(state_);
    if (ended_) return;
    try {
      if (refusal) std::rethrow_exception(refusal);
      const std::span<const std::byte> bytes(incoming_.data(), static_cast<std::size_t>(arrival.bytes));
      PacketReader packet(bytes, files.size());
      std::shared_ptr<const Event> ready;
      std::size_t file = 0;
      while (const auto message = packet.next()) apply(*message, files, file, ready, dropped);
    } catch (...) {
      end(std::current_exception(), dropped);
    }
    changed_.notify_all();
    if (ended_) return;
  }
}

void Link::apply(const Message& message, std::vector<spi::StrangerFd>& files, std::size_t& file,
                 std::shared_ptr<const Event>& ready, Dropped& dropped) {
  if (const auto* const hello = std::get_if<Hello>(&message)) {
    if (greeted_) violated("a second greeting");
    if (hello->version != protocol_version)
      throw Error(Errc::incompatible, "ipc::Channel: the peer speaks version " + std::to_string(hello->version) +
                                          " of the protocol, this process version " +
                                          std::to_string(protocol_version));
    if (hello->window == 0 || hello->window > most_window) violated("a window of " + std::to_string(hello->window));
    lender_.open_window(hello->window);
    greeted_ = true;
    return;
  }
  if (!greeted_) violated("no greeting");
  if (const auto* const segment = std::get_if<Segment>(&message)) {
    const auto wire = decode(segment->descriptor);
    if (wire.has_ready || wire.has_lease || wire.offset != 0 || wire.size != wire.segment_size)
      violated("a segment's descriptor is that of a buffer");
    borrower_.add(segment->number, {std::make_shared<ForeignSegment>(wire, std::move(files.at(file++)))});
  } else if (std::holds_alternative<Ready>(message)) {
    ready = std::make_shared<const Event>(receive_ready(std::move(files.at(file++))));
  } else if (const auto* const grant = std::get_if<Grant>(&message)) {
    if (peer_closed_) violated("a buffer after its farewell");
    if (grant->waits && !ready) violated("a buffer waits for nothing");
    const auto& memory = borrower_.arrive(*grant);
    arrived_.push_back({grant->number, memory.segment, grant->segment, grant->offset, grant->size,
                        {grant->payload.begin(), grant->payload.end()}, grant->waits ? ready : nullptr});
    if (closed_) refuse_arrived(dropped);
  } else if (const auto* const releases = std::get_if<Releases>(&message)) {
    for (std::size_t i = 0; i < releases->size(); ++i) dropped.lent.push_back(lender_.release((*releases)[i]));
  } else if (const auto* const credit = std::get_if<Credit>(&message)) {
    lender_.credit(credit->buffers);
  } else if (const auto* const retire = std::get_if<Retire>(&message)) {
    dropped.foreign.push_back(borrower_.retire(retire->segment));
  } else {
    peer_closed_ = true;
  }
}

// Nothing goes over the socket any more. What a peer sent before its end can still be received; what one sent that broke
// the protocol cannot.
void Link::end(std::exception_ptr why, Dropped& dropped) noexcept {
  if (ended_) return;
  ended_ = std::move(why);
  bool just_gone = false;
  try {
    std::rethrow_exception(ended_);
  } catch (const Error& error) {
    just_gone = error.code() == Errc::peer_gone;
  } catch (...) {
  }
  if (!just_gone) dropped.arrived.swap(arrived_);
  for (Buffer& lent : lender_.end()) dropped.lent.push_back(std::move(lent));
  for (ForeignMemory& foreign : borrower_.end()) dropped.foreign.push_back(std::move(foreign));
  retired_.clear();
  (void)::shutdown(socket_.get(), SHUT_RDWR);
}

// Give back what nobody will receive.
void Link::refuse_arrived(Dropped& dropped) {
  while (!arrived_.empty()) {
    borrower_.take();
    Arrived& first = arrived_.front();
    borrower_.opened(first.segment_number);
    borrower_.end(first.number);
    dropped.arrived.push_back(std::move(first));
    arrived_.pop_front();
  }
}

// ---- sending --------------------------------------------------------------------------------------------------------

std::size_t Link::send(std::span<const Outgoing> buffers, const Stream& stream, const Deadline& deadline) {
  constexpr const char* operation = "ipc::Channel::send";
  if (inherited()) throw Error(Errc::unsupported, "ipc::Channel: the parent of this process has the connection");
  (void)stream.state();
  for (const Outgoing& one : buffers) {
    check_shareable(operation, *one.buffer);
    if (one.payload.size() > most_payload)
      throw Error(Errc::invalid_argument, std::string(operation) + ": a payload of " +
                                              std::to_string(one.payload.size()) + " bytes; it may have " +
                                              std::to_string(most_payload));
  }
  for (const Outgoing& one : buffers) one.buffer->order_after_uses(stream);
  const bool waits = !stream.record().done();
  std::size_t done = 0;
  while (done < buffers.size()) {
    try {
      done += send_some(buffers.subspan(done), waits, stream, deadline);
    } catch (const Error& error) {
      if (done == 0 || error.code() != Errc::timed_out) throw;
      break;
    }
  }
  bool watch = false;
  {
    const Lock lock(state_);
    watch = !watched_ && !watcher_passed_ && lender_.live() != 0;
    watched_ = watched_ || watch;
  }
  if (watch) ask_watcher();
  return done;
}

// Send one packet. Return how many buffers it has: none if another thread was faster.
std::size_t Link::send_some(std::span<const Outgoing> buffers, bool waits, const Stream& stream,
                            const Deadline& deadline) {
  Dropped dropped;
  std::exception_ptr failure;
  std::size_t count = 0;
  {
    Lock lock(state_);
    for (; !(ended_ || peer_closed_ || closed_) && lender_.room() == 0; wait(lock, deadline, false)) {}
    await_turn(lock, deadline);
    sending_ = true;
    try {
      count = compose(lock, buffers, waits, stream);
      count != 0 ? put_on_socket(lock, deadline) : unsent(dropped);
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
    if (deadline.passed()) time_out("another thread is sending");
    if (deadline.endless()) {
      changed_.wait(lock);
    } else {
      (void)changed_.wait_until(lock, deadline.at());
    }
  }
}

// Make a packet of what the peer is owed, and of as many buffers as fit. Return how many those are. The caller has
// set sending_.
std::size_t Link::compose(Lock& lock, std::span<const Outgoing> buffers, bool waits, const Stream& stream) {
  compose_debts();
  const auto unlocked = [&](auto&& work) {  // nobody else tells and lends meanwhile, but the peer may end
    lock.unlock();
    auto made = work();
    lock.lock();
    check_peer();
    return made;
  };
  check_open();
  check_peer();
  std::size_t count = 0;
  bool has_ready = false;
  for (; count < buffers.size() && lender_.room() != 0 && packet_.has_room(buffers[count].payload.size()); ++count) {
    const Buffer& buffer = *buffers[count].buffer;
    const auto place = buffer.location();
    const auto id = place.segment->id();
    const auto told = lender_.tell(id);
    if (told.first) {
      told_now_.push_back(id);
      auto exported = unlocked([&] { return place.segment->device->backend->segments->export_handle(*place.segment); });
      auto wire = describe_memory(*place.segment);
      wire.handle = exported.kind;
      files_.push_back(std::move(exported.fd));
      (void)packet_.add(Segment{told.number, encode(wire)});
    }
    if (waits && !std::exchange(has_ready, true)) {
      files_.push_back(unlocked([&] { return send_ready(stream); }));
      (void)packet_.add(Ready{});
    }
    lent_now_.push_back(0);
    lent_now_.back() = lender_.lend(buffer.share());
    (void)packet_.add(Grant{lent_now_.back(), told.number, waits, place.offset, buffer.size(), buffers[count].payload});
  }
  return count;
}

void Link::compose_debts() {
  packet_.clear();
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

void Link::sent() noexcept {
  borrower_.told();
  retired_.erase(retired_.begin(), retired_.begin() + static_cast<std::ptrdiff_t>(std::min(retired_now_, retired_.size())));
  to_greet_ = to_greet_ && !greets_now_;
  told_closed_ = told_closed_ || leaves_now_;
  full_ = false;
}

void Link::unsent(Dropped& dropped) noexcept {
  borrower_.untold();
  if (ended_) return;  // which has ended all grants, too
  for (const std::uint64_t number : lent_now_) {
    if (number != 0) dropped.lent.push_back(lender_.unlend(number));
  }
  for (const spi::SegmentId id : told_now_) lender_.untell(id);
}

// Send the packet that was made. The caller undoes what it says when this throws.
void Link::put_on_socket(Lock& lock, const Deadline& deadline) {
  std::array<int, most_files> numbers{};
  std::ranges::transform(files_, numbers.begin(), [](const spi::UniqueFd& file) { return file.get(); });
  for (;;) {
    lock.unlock();
    const auto count = send_packet(socket_.get(), packet_.bytes(), std::span(numbers).first(files_.size()), false);
    const int error = errno;
    lock.lock();
    if (count >= 0) return sent();
    if (error != EAGAIN) fail_socket("sendmsg", error);  // if the peer is gone, what it sent may still be read
    wait(lock, deadline, true);
    check_peer();
  }
}

// Tell the peer what it is owed, without waiting. A thread that is sending does so afterwards.
void Link::pay_debts() noexcept {
  Dropped dropped;
  Lock lock(state_);
  while (!sending_ && !ended_) {
    try {
      compose_debts();
    } catch (const std::exception&) {  // no memory; the next call tries again
      return unsent(dropped);
    }
    if (packet_.empty()) return;
    sending_ = true;
    lock.unlock();
    const auto count = send_packet(socket_.get(), packet_.bytes(), {}, false);
    const int error = errno;
    lock.lock();
    sending_ = false;
    changed_.notify_all();
    if (count >= 0) {
      sent();
      continue;
    }
    unsent(dropped);
    if (error != EAGAIN) return;  // the peer is gone, which is found by reading, or the system is short of memory
    if (!std::exchange(full_, true)) ask_watcher();
    return;
  }
}

// ---- the user's other calls ----------------------------------------------------------------------------------------

ipc::Parcel Link::receive(const Stream& stream, const Deadline& deadline) {
  if (inherited()) throw Error(Errc::unsupported, "ipc::Channel: the parent of this process has the connection");
  auto& preferred = stream.state().device();
  Lock lock(state_);
  for (;; wait(lock, deadline, false)) {
    check_open();
    if (!arrived_.empty()) break;
    check_peer();
  }
  borrower_.take();
  Arrived next = std::move(arrived_.front());
  arrived_.pop_front();
  borrower_.opened(next.segment_number);  // before the peer may send more
  const bool owes = borrower_.owes_much();
  lock.unlock();
  if (owes) pay_debts();
  try {
    auto memory = next.segment->open(preferred);
    if (next.ready) stream.wait(*next.ready);
    return {import_buffer(std::move(memory), next.offset, next.size, stream, shared_from_this(), next.number),
            std::move(next.payload)};
  } catch (...) {
    give_back(next.number);
    throw;
  }
}

void Link::close() noexcept {
  if (inherited()) return;
  Dropped dropped;
  {
    const Lock lock(state_);
    if (std::exchange(closed_, true)) return;
    try {
      refuse_arrived(dropped);
    } catch (const std::exception&) {  // no memory; the peer gets these back with the connection
    }
    changed_.notify_all();
  }
  pay_debts();
  ask_watcher();
}

ipc::ChannelStats Link::stats() {
  const Lock lock(state_);
  return {lender_.live(), borrower_.held(), arrived_.size(), lender_.told(), borrower_.segments()};
}

// ---- calls of others -----------------------------------------------------------------------------------------------

void Link::give_back(std::uint64_t number) noexcept {
  if (inherited()) return;
  Lock lock(state_);
  borrower_.end(number);
  if (ended_) return;
  const bool first = borrower_.to_release() == 1, many = borrower_.owes_much();
  lock.unlock();
  if (many) return pay_debts();
  if (first) ask_watcher();  // which tells of more, if more come until then
}

void Link::retire(spi::SegmentId id) noexcept {
  if (inherited()) return;
  const Lock lock(state_);
  const auto number = lender_.ended(id);
  if (!number) return;
  try {
    retired_.push_back(*number);
  } catch (const std::exception&) {  // no memory: the peer keeps the segment open until the connection ends
    return;
  }
  ask_watcher();
}

std::uint32_t Link::attend() noexcept {
  if (inherited()) return 0;
  {
    Lock lock(state_);
    if (reading_) {
      watcher_passed_ = true;
    } else if (!ended_) {
      reading_ = true;
      lock.unlock();
      read();
      lock.lock();
      reading_ = false;
      changed_.notify_all();
    }
  }
  pay_debts();
  const Lock lock(state_);
  if (ended_) return 0;
  const bool waits = lender_.live() != 0 || (closed_ && borrower_.held() != 0);
  watched_ = waits && !watcher_passed_;
  return (watched_ ? std::uint32_t{EPOLLIN} : 0) | (full_ ? std::uint32_t{EPOLLOUT} : 0);
}

void Link::ask_watcher() noexcept {
  if (auto self = weak_from_this().lock()) attend_soon(self);
}

}  // namespace weir::detail::channel
