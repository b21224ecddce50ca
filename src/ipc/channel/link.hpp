// SPDX-License-Identifier: Apache-2.0
#pragma once
// A connection with its socket and its locks. The two halves of the protocol (lender.hpp, borrower.hpp) stand in here.

#include <sys/types.h>

#include <array>
#include <condition_variable>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ipc/channel/borrower.hpp"
#include "ipc/channel/deadline.hpp"
#include "ipc/channel/foreign_segment.hpp"
#include "ipc/channel/lender.hpp"
#include "ipc/channel/messages.hpp"
#include "ipc/channel/received_point.hpp"
#include "ipc/channel/sent_points.hpp"
#include "ipc/channel/unread.hpp"
#include "ipc/channel/watcher.hpp"
#include "ipc/connected_socket.hpp"
#include "ipc/packets.hpp"
#include "memory/lent.hpp"
#include "weir/channel.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/stranger_fd.hpp"
#include "weir/spi/unique_fd.hpp"
#include "weir/stream.hpp"

namespace weir::detail::channel {

/// A buffer to send. Refers to what the caller has.
struct Outgoing {
  const Buffer* buffer;
  std::span<const std::byte> payload;
  ipc::Access access = ipc::Access::read_write;
  std::shared_ptr<const void> mark = {};  ///< kept until the peer has given the buffer back
};

/// A buffer that the peer has, and the mark of its Outgoing.
struct Lent {
  Buffer buffer;
  std::shared_ptr<const void> mark;
  spi::Ref<spi::Segment> keeps = {};  ///< what the peer opened of the buffer, if that is not the buffer's segment
};

/// Hears of a connection whose user waits in no call.
class LinkObserver {
 public:
  /// The peer may have said something, or be gone. Called on a thread of the library, without locks.
  virtual void link_changed() noexcept = 0;

 protected:
  ~LinkObserver() = default;
};

class Link;

constexpr std::uint32_t most_window = 65536;  // buffers

/// The place of a link in a queue of the watcher's, under the watcher's lock.
struct QueueHook {
  std::shared_ptr<Link> next;
  bool queued = false;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(spi::StrangerFd&& socket, std::uint32_t window, Borrows what, std::optional<uid_t> user,
       std::uint32_t most_sent);
  Link(const Link&) = delete;
  virtual ~Link() = default;
  Link& operator=(const Link&) = delete;

  std::size_t send(std::span<const Outgoing> buffers, const Stream& stream, const Deadline& deadline);
  /// Says by the payload whether the caller wants a buffer. Called under a lock.
  using Wanted = std::function<bool(std::span<const std::byte> payload)>;
  /// Buffers that are not wanted are given back before they are opened or waited for.
  [[nodiscard]] ipc::Parcel receive(const Stream& stream, const Deadline& deadline, const Wanted& wanted = {});
  /// Give back all that has been read and nobody has received. Return whether there was any.
  bool refuse_what_came();
  void close() noexcept;
  [[nodiscard]] ipc::ChannelStats stats();
  /// Read what has come, without waiting for the peer. A thread that waits in a call is waited for, so this is for
  /// connections where only the watcher does anything else. Throws what this process is short of; what it could not read
  /// then, it reads later.
  void look();
  /// Throw why the connection has ended, if it has.
  void check();

  // For an owner that has much to send and never waits for the peer.

  /// What the peer takes and has at a moment.
  struct Capacity {
    std::uint32_t room;  ///< so many buffers can be sent now; 0 before the peer's greeting
    std::size_t lent;    ///< so many have not come back
    bool left;           ///< the peer takes no more
    bool ended;          ///< the connection is over, and everything has come back
  };
  [[nodiscard]] Capacity capacity();
  /// Have the library attend to the connection from now on, and tell `observer` each time. Throws what keeps it from
  /// that.
  void observe(std::weak_ptr<LinkObserver> observer);
  /// Tell the observer once more after a pause: it could not do all that it wanted. Called without locks, because a
  /// failure is reported.
  void change_later() noexcept;
  /// Send as many of the buffers, which can be shared, as the peer takes at once. Return how many: fewer than all only
  /// if there was no room; the observer hears when there may be. `stream` comes after every use of the buffers already:
  /// ordering it may take time, which the caller spends where it keeps nobody. Throws what send() throws.
  std::size_t try_send(std::span<const Outgoing> buffers, const Stream& stream);

  // For others than the user's calls.

  /// Send what every connection begins with.
  void greet() noexcept { pay_debts(); }
  /// Have the kernel say, beside the peer's greeting, which process sent it. Called after greet(): while a socket asks,
  /// sending over it would give it a name that others can see.
  void ask_who_it_is() noexcept;
  /// Add the buffers that the peer has.
  void list_lent(LentList& lent);
  /// A borrowed buffer is used no more.
  void give_back(std::uint64_t number) noexcept;
  /// A segment of this process is gone. Return whether the watcher has to be asked to tell the peer.
  [[nodiscard]] bool retire(const spi::Segment* segment) noexcept;
  /// Have the watcher tell the peer what it is owed. Called without locks, because a failure is reported. Then it is
  /// told at once.
  void tell_soon() noexcept;
  /// How many packets are read at most. A peer that sends without end gets no thread for itself.
  enum class Reads : int { some = 16, all = 1024 };
  /// Read what has come and send what the peer is owed, without waiting. Return the events of the socket to wait for
  /// before the next call, as epoll has them; 0 for none.
  [[nodiscard]] std::uint32_t attend(Reads reads) noexcept;
  /// The watcher cannot wait for what attend() returned.
  void not_watched() noexcept;
  /// Return whether the watcher has to attend again after a pause: the system did not send what the peer is owed, or
  /// this process was short of something when it read, or in its observer.
  [[nodiscard]] bool owes() noexcept;
  /// Return whether the peer is gone or was cut off, so that it will not say anything more. What it said before may not
  /// have been read.
  [[nodiscard]] bool hung_up() const noexcept;
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  /// Return whether this is a forked child of the link's process. Threads that only the parent has may have been changing
  /// the link, and no look at it shows that: a fork copies the table of files first and the memory page by page, while
  /// those threads go on. So an inherited link must not even be destroyed.
  [[nodiscard]] bool inherited() const noexcept;

  QueueHook in_asked, in_late;  // the watcher's

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Arrived {
    std::uint64_t number;
    std::shared_ptr<ForeignSegment> segment;
    std::uint32_t segment_number;
    std::uint64_t offset, size;
    std::vector<std::byte> payload;
    std::shared_ptr<ReceivedPoint> ready;
  };
  struct Dropped;  // what must be destroyed without the locks
  struct Placed;   // a buffer to send, with what the peer opens of it

  friend class spi::ForkLink;
  void fork(spi::ForkMoment moment) noexcept;
  void check_process() const;
  void check_open() const;
  void check_peer() const;
  struct Waiting {
    const Deadline& deadline;
    int read_late = 0;  // how much came after the deadline, in small packets
  };
  void wait(Lock& lock, Waiting& waiting, bool for_room_in_socket);
  enum class Came { nothing, packet, large_packet, shortage, end };
  void read(Lock& lock, Reads reads) noexcept;
  [[nodiscard]] int read_some() noexcept;
  [[nodiscard]] int read_soon(std::chrono::nanoseconds within) noexcept;
  [[nodiscard]] Came read_packet() noexcept;
  void begin_packet(const Arrival& arrival) noexcept;
  void watch_again(Lock& lock) noexcept;
  void apply(const Message& message, std::shared_ptr<ReceivedPoint>& ready, Dropped& dropped);
  void add_segment(const Segment& message);
  void add_page();
  [[nodiscard]] std::shared_ptr<ReceivedPoint> received_point(PagePoint point, std::shared_ptr<ReceivedPoint>& last);
  void refuse_arrived(Dropped& dropped);
  void refuse_first(Dropped& dropped);
  void end(std::exception_ptr why, Dropped& dropped) noexcept;
  void end_if_unneeded() noexcept;
  [[nodiscard]] static std::vector<Placed> place(std::span<const Outgoing> buffers);
  std::size_t send_some(std::span<const Placed> buffers, bool waits, const Stream& stream, const Deadline& deadline);
  [[nodiscard]] bool peer_takes(const Placed& next) const;
  void await_turn(Lock& lock, const Deadline& deadline);
  std::size_t compose(Lock& lock, std::span<const Placed> buffers, bool waits, const Stream& stream);
  [[nodiscard]] PagePoint record(const Stream& stream);
  void compose_debts();
  [[nodiscard]] std::ptrdiff_t send_composed(std::span<const int> files) noexcept;
  void await_room_in_socket() noexcept;
  void sent() noexcept;
  void unsent(Dropped& dropped) noexcept;
  void put_on_socket(Lock& lock, const Deadline& deadline);
  void pay_debts() noexcept;
  [[nodiscard]] bool needs_watcher() const noexcept;
  void watch_what_is_lent(Attended attended) noexcept;
  void pass_to_reader(Attended attended) noexcept;
  void watch(Lock& lock) noexcept;
  bool ask_watcher() noexcept;
  void owe(Lock& lock) noexcept;

  spi::UniqueFd bell_;      // rings when the channel is closed
  ConnectedSocket socket_;  // after it: this hangs up when it ends, also for copies
  const std::uint32_t process_;
  const std::optional<uid_t> user_;  // whose the peer is, where the socket does not say it
  const std::uint32_t most_sent_;    // buffers on their way

  // Of the thread that has set sending_, which is the one that makes and sends a packet, so that packets stay in order.
  PacketWriter packet_;
  std::vector<spi::UniqueFd> files_;      // beside the packet
  std::vector<std::uint64_t> lent_now_;   // in the packet
  std::vector<Lent> undone_;            // has room for as many
  std::vector<ToldOf> told_now_;        // for the first time, in the packet
  std::size_t retired_now_ = 0;
  bool greets_now_ = false, leaves_now_ = false, tells_page_now_ = false;
  std::shared_ptr<SentPoints> points_;  // from the first stream on that the peer has to wait for
  bool told_page_ = false;              // the peer has its file

  std::mutex state_;
  std::condition_variable changed_;
  Lender<Lent> lender_;
  Borrower<ForeignMemory> borrower_;
  std::shared_ptr<const PeerPage> peer_page_;
  std::exception_ptr no_page_;  // why there is none, although the peer has told of it
  std::list<Arrived> arrived_;
  std::vector<std::uint32_t> retired_;  // of which the peer has to be told
  std::weak_ptr<LinkObserver> observer_;
  bool observed_ = false;
  bool changes_later_ = false;          // the observer wants to be told again
  std::exception_ptr ended_;            // why nothing goes over the socket any more
  bool sending_ = false;                // some thread makes a packet, and will look for debts before it is done
  bool reading_ = false;                // some thread reads, or waits for something to read
  bool attending_ = false;              // the watcher is in attend(), and will look at all this before it leaves
  bool watched_ = false;                // the watcher reads when something comes
  bool watcher_passed_ = false;         // the reading was left to that thread, which sees to the watcher afterwards
  std::optional<Attended> passed_;      // keeps the thread of the watcher there until then
  std::int32_t peer_ = 0;               // process id of the peer; 0 while it is not known
  bool greeted_ = false;                // the peer has said Hello
  bool to_greet_ = true;                // this side has to
  bool closed_ = false, told_closed_ = false;
  bool peer_closed_ = false;
  bool full_ = false;                              // the socket took no more
  bool owes_ = false;                              // the system did not send what the peer is owed; the watcher tries again
  // Why not all that came has been read: this process was short of something. Nothing is lost, and whoever reads next
  // goes on there.
  std::exception_ptr shortage_;

  // Of the thread that has set reading_.
  std::array<std::byte, largest_packet> incoming_;
  std::vector<spi::StrangerFd> incoming_files_;  // has room for all files that a packet can bring
  std::size_t next_file_ = 0;                    // the first one that no message has taken
  Unread unread_;                                // of the packet in incoming_

  spi::ForkLink link_{*this};  // the last member, as ForkLink requires
};

}  // namespace weir::detail::channel
