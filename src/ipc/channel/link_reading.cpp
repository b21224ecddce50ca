// SPDX-License-Identifier: Apache-2.0
// How a connection waits and reads, and what it makes of what came.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "base/reports_later.hpp"
#include "base/shortage.hpp"
#include "ipc/channel/dropped.hpp"
#include "ipc/channel/link.hpp"
#include "ipc/packets.hpp"
#include "weir/error.hpp"

namespace weir::detail::channel {
namespace {

// How much a call reads after its time limit, in small packets: as many as a socket holds unless somebody enlarged it.
// A large packet takes as much room there as so many small ones, and much longer to read.
constexpr int most_late = 1024, large = 64;

// To be woken by the kernel takes 5 microseconds and more. So a call that waits for something to read looks again and
// again for so long before it sleeps.
constexpr std::chrono::microseconds eager{20};

constexpr char channel_name[] = "ipc::Channel";

std::exception_ptr lost_files() {
  try {
    fail_lost_files(channel_name);
  } catch (const Error&) {  // and nothing else: there may be no memory for it
    return std::current_exception();
  }
}

}  // namespace

// Wait until something has changed. One thread at a time waits at the socket and reads; the others wait for that one.
// After its time limit, a call still takes what is there, but not without end: a peer may send ever more.
void Link::wait(Lock& lock, Waiting& waiting, bool for_room_in_socket) {
  const Deadline& deadline = waiting.deadline;
  const char* const late = for_room_in_socket ? "the peer does not read" : "nothing came in time";
  const bool reads = !reading_;
  if (!reads && !for_room_in_socket) {
    deadline.check(late);
    if (deadline.endless()) return changed_.wait(lock);
    (void)changed_.wait_until(lock, deadline.at());
    return;
  }
  int read = 0;
  bool changed = false;
  {
    const ReportsLater later;
    if (reads) reading_ = true;
    lock.unlock();
    read = reads ? read_soon(for_room_in_socket || deadline.over() ? Clock::duration::zero() : eager) : 0;
    changed = read != 0;
    if (!changed) {
      std::array<pollfd, 2> entries{{{socket_.get(), 0, 0}, {bell_.get(), POLLIN, 0}}};
      pollfd& socket = entries[0];
      if (reads) socket.events |= POLLIN;
      if (for_room_in_socket) socket.events |= POLLOUT;
      changed = ::poll(entries.data(), entries.size(), deadline.milliseconds()) > 0;
      if (reads && changed && (socket.revents & ~POLLOUT) != 0) read = read_some();
    }
    lock.lock();
    if (reads) {
      reading_ = false;
      changed_.notify_all();
    }
    if (!later.empty()) lock.unlock();  // the sink may receive, too
  }
  if (!lock) lock.lock();
  if (reads) {
    const auto shortage = shortage_;
    watch_again(lock);
    if (shortage) std::rethrow_exception(shortage);  // the next call goes on there
  }
  if (!changed || (deadline.over() && (waiting.read_late += std::max(read, 1)) >= most_late)) deadline.check(late);
}

// See to it that the watcher reads, if it or another thread left the reading to this one, or if this one has not read
// to the end. Does so without the lock, because a failure is reported.
void Link::watch_again(Lock& lock) noexcept {
  const bool unread = shortage_ && !ended_ && needs_watcher();
  if (!std::exchange(watcher_passed_, false) && !unread) return;
  const auto passed = std::move(passed_);  // ends once the watcher has been seen to
  passed_.reset();
  if (observed_ || unread) {
    lock.unlock();
    (void)ask_watcher();  // which tells of what was read, or goes on there
    lock.lock();
  } else if (!ended_ && needs_watcher()) {
    watch(lock);
  }
}

void Link::look() {
  if (inherited()) return;
  const ReportsLater later;
  Lock lock(state_);
  changed_.wait(lock, [this] { return !reading_; });
  if (ended_) return;
  read(lock, Reads::some);
  const auto shortage = shortage_;
  watch_again(lock);
  if (shortage) std::rethrow_exception(shortage);
}

// Read what has come. No other thread reads.
void Link::read(Lock& lock, Reads reads) noexcept {
  reading_ = true;
  lock.unlock();
  for (int i = 0; i < static_cast<int>(reads); ++i) {
    const auto came = read_packet();
    if (came != Came::packet && came != Came::large_packet) break;
  }
  lock.lock();
  reading_ = false;
  changed_.notify_all();
}

// Read what comes within that time, as read_some() does. The caller has set reading_.
int Link::read_soon(std::chrono::nanoseconds within) noexcept {
  int read = read_some();  // costs less than to ask first
  if (read != 0 || within.count() == 0) return read;
  for (const auto end = Clock::now() + within; read == 0 && Clock::now() < end;) read = read_some();
  return read;
}

// Read a packet, and what comes behind a large one: the peer fills packets when it has much to send, and then it may
// wait for room in the socket. What comes behind a small one stays for the next call, or for the watcher. Return how
// much came, in small packets. The caller has set reading_.
int Link::read_some() noexcept {
  int read = 0;
  for (int i = 0; i < static_cast<int>(Reads::some); ++i) {
    const auto came = read_packet();
    if (came == Came::large_packet) {
      read += large;
    } else {
      return read + (came == Came::nothing ? 0 : 1);
    }
  }
  return read;
}

// The caller has set reading_. What this process is short of is no fault of the peer's, which may be using what it was
// lent, so the connection goes on: the rest of the packet stays for the next call.
Link::Came Link::read_packet() noexcept {
  Dropped dropped;
  Arrival arrival;
  std::exception_ptr refusal;
  try {
    if (unread_.empty()) arrival = receive_packet(socket_.get(), incoming_, incoming_files_);
    if (arrival.error == ECONNRESET) return Came::packet;  // said once; what the peer sent before is still to be read
    const bool nothing = arrival.error == EAGAIN || arrival.error == EINTR;
    if (arrival.bytes < 0 && !nothing) fail_socket("recvmsg", arrival.error);
    if (arrival.bytes == 0 && unread_.empty()) throw Error(Errc::peer_gone, "ipc::Channel: the other process is gone");
    if (arrival.cut) violated("a packet is too large");
  } catch (...) {
    refusal = std::current_exception();
  }
  const Lock lock(state_);
  if (ended_) {
    dropped.files.swap(incoming_files_);
    return Came::end;
  }
  if (arrival.process != 0) peer_ = arrival.process;
  if (!refusal && arrival.bytes > 0) begin_packet(arrival);
  try {
    if (refusal) std::rethrow_exception(refusal);
    std::shared_ptr<ReceivedPoint> ready;
    unread_.apply([&](const Message& message) { apply(message, ready, dropped); });
    incoming_files_.clear();
    if (closed_) refuse_arrived(dropped);
    shortage_ = nullptr;
    if (arrival.bytes < 0) return Came::nothing;
  } catch (...) {
    const bool is_lost = refusal && arrival.bytes > 0;
    if (is_shortage() && !is_lost) {
      shortage_ = std::current_exception();
      return Came::shortage;
    }
    end(std::current_exception(), dropped);
    dropped.files.swap(incoming_files_);
  }
  changed_.notify_all();
  if (ended_) return Came::end;
  return 2 * static_cast<std::size_t>(arrival.bytes) > largest_packet ? Came::large_packet : Came::packet;
}

// Files for which this process had no room are missing at the end.
void Link::begin_packet(const Arrival& arrival) noexcept {
  const std::span<const std::byte> bytes(incoming_.data(), static_cast<std::size_t>(arrival.bytes));
  next_file_ = 0;
  if (arrival.files_lost) {
    incoming_files_.resize(most_sent_files);
    unread_.came({bytes, PacketReader::FilesLost{}});
  } else {
    unread_.came({bytes, incoming_files_.size()});
  }
}

// When this throws for want of memory, it has changed nothing.
void Link::apply(const Message& message, std::shared_ptr<ReceivedPoint>& ready, Dropped& dropped) {
  if (const auto* const hello = std::get_if<Hello>(&message)) {
    if (greeted_) violated("a second greeting");
    if (hello->version != protocol_version)
      throw Error(Errc::incompatible, "ipc::Channel: the peer speaks version " + std::to_string(hello->version) +
                                          " of the protocol, this process version " +
                                          std::to_string(protocol_version));
    if (hello->window == 0 || hello->window > most_window) violated("a window of " + std::to_string(hello->window));
    lender_.open_window(std::min(hello->window, most_sent_));
    greeted_ = true;
    ask_for_senders(socket_.get(), false);
    return;
  }
  if (!greeted_) violated("no greeting");
  if (const auto* const segment = std::get_if<Segment>(&message)) {
    add_segment(*segment);
  } else if (std::holds_alternative<Page>(message)) {
    add_page();
  } else if (const auto* const grant = std::get_if<Grant>(&message)) {
    if (peer_closed_) violated("a buffer after its farewell");
    const auto& memory = borrower_.check(*grant);
    std::list<Arrived> arrived;
    arrived.push_back({grant->number,
                       memory.segment,
                       grant->segment,
                       grant->offset,
                       grant->size,
                       {grant->payload.begin(), grant->payload.end()},
                       received_point(grant->ready, ready)});
    borrower_.arrive(grant->segment);
    arrived_.splice(arrived_.end(), arrived);
  } else if (const auto* const releases = std::get_if<Releases>(&message)) {
    dropped.begin_return();
    dropped.lent.reserve(dropped.lent.size() + releases->size());  // what comes back must not end here
    for (std::size_t i = 0; i < releases->size(); ++i) dropped.lent.push_back(lender_.release((*releases)[i]));
  } else if (const auto* const credit = std::get_if<Credit>(&message)) {
    lender_.credit(credit->buffers);
  } else if (const auto* const retire = std::get_if<Retire>(&message)) {
    dropped.foreign.emplace_back();  // before: what is retired must not end here
    dropped.foreign.back() = borrower_.retire(retire->segment);
  } else {
    peer_closed_ = true;
  }
}

// A file that was lost fails the buffers of its segment, one by one, and nothing else.
void Link::add_segment(const Segment& message) {
  auto wire = decode(message.descriptor);
  if (wire.has_ready || wire.has_lease || wire.offset != 0 || wire.size != wire.segment_size)
    violated("a segment's descriptor is that of a buffer");
  const std::span<spi::StrangerFd> files = std::span(incoming_files_).subspan(next_file_, wire.memory_files());
  const bool all_came = std::ranges::all_of(files, [](const spi::StrangerFd& file) { return bool{file}; });
  const auto made = std::make_shared<ForeignSegment>(std::move(wire), all_came ? nullptr : lost_files());
  borrower_.add(message.number, {made}, files.size());
  if (!closed_) made->keep(files);  // else nobody ever opens it
  next_file_ += files.size();
}

// A page that is none ends the connection. One that this process cannot open fails the buffers that wait for its
// points.
void Link::add_page() {
  spi::StrangerFd& file = incoming_files_.at(next_file_);
  std::shared_ptr<const PeerPage> page;
  std::exception_ptr refusal;
  try {
    if (!file) fail_lost_files(channel_name);
    page = std::make_shared<const PeerPage>(std::move(file));
  } catch (const Error& error) {
    if (file && (is_shortage() || error.code() == Errc::corrupt_descriptor)) throw;
    refusal = std::current_exception();
    (void)file.trust();  // a memfd, whose close nobody can block
  }
  borrower_.add_page();
  peer_page_ = std::move(page);
  no_page_ = std::move(refusal);
  ++next_file_;
}

// Return what the user's stream has to wait for: nothing if the point has been reached. The last buffer of the packet
// waits for `last`, and many wait for the same point.
std::shared_ptr<ReceivedPoint> Link::received_point(PagePoint point, std::shared_ptr<ReceivedPoint>& last) {
  if (point.value == 0 || (peer_page_ && peer_page_->look(point) == PeerPage::State::reached)) return nullptr;
  if (last && last->is(point)) return last;
  last = peer_page_ ? std::make_shared<ReceivedPoint>(peer_page_, point, weak_from_this())
                    : std::make_shared<ReceivedPoint>(no_page_, point);
  return last;
}

// Nothing goes over the socket any more. What a peer sent before its end can still be received; what one sent that broke
// the protocol cannot.
void Link::end(std::exception_ptr why, Dropped& dropped) noexcept {
  if (ended_) return;
  ended_ = std::move(why);
  if (inherited()) return;  // what came back here called fork(), and this is the child
  bool just_gone = false;
  try {
    std::rethrow_exception(ended_);
  } catch (const Error& error) {
    just_gone = error.code() == Errc::peer_gone;
  } catch (...) {
  }
  if (!just_gone) dropped.arrived.swap(arrived_);
  dropped.begin_return();
  dropped.all_lent = lender_.end();
  dropped.all_foreign = borrower_.end();
  retired_.clear();
  socket_.hang_up();
}

// Give back what nobody will receive.
void Link::refuse_arrived(Dropped& dropped) {
  while (!arrived_.empty()) refuse_first(dropped);
}

void Link::refuse_first(Dropped& dropped) {
  const Arrived& first = arrived_.front();
  borrower_.take(first.segment_number);  // nothing behind this needs memory
  borrower_.end(first.number);
  dropped.arrived.splice(dropped.arrived.end(), arrived_, arrived_.begin());
}

}  // namespace weir::detail::channel
