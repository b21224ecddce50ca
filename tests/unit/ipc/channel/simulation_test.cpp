// SPDX-License-Identifier: Apache-2.0
// Channels between processes that are played in this one: packets wait in queues, processes die between any two steps,
// sockets are full, peers answer what they were never sent, streams are slow, and memory runs out in the middle of a
// packet. The halves of the connections are the real ones. First anything happens, and safety is checked at each step:
// memory goes to somebody else only when no living process can use it any more, and nobody uses it before the work of
// its owner is complete. Then nobody dies or lags any more, and everything must come back. A seed plays a schedule
// again: WEIR_CHANNEL_SEED=n runs that one alone.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ipc/channel/borrower.hpp"
#include "ipc/channel/lender.hpp"
#include "ipc/channel/unread.hpp"
#include "ipc/channel/words.hpp"
#include "seeds.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;
using detail::PagePoint;

constexpr std::size_t processes = 3;
constexpr std::uint32_t window = 4, words = 2;  // fewer words than a process has streams
constexpr std::size_t streams = 3;
constexpr std::uint64_t segment_bytes = 1024;

class World;

/// A segment of a process: its own memory, or memory of a peer as a connection opened it. Its end is told.
struct Local {
  Local(World& in, std::size_t of);
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;
  ~Local();
  World& world;
  const std::size_t process, files;
};
using LocalPtr = std::shared_ptr<const Local>;

/// A place of memory: one segment at a time, which somebody owns while `users` is not 0.
struct Slot {
  LocalPtr segment;
  int users = 0;
  int loans = 0;  // living processes that can use it, and are owed that it stays
};

/// What a process has of a slot. The slot is in use as long as one of these exists anywhere.
struct Use {
  virtual ~Use() = default;
  Slot* slot = nullptr;
  LocalPtr segment;
};
using UsePtr = std::shared_ptr<Use>;

struct OwnUse final : Use {
  explicit OwnUse(Slot& of) {
    slot = &of;
    segment = of.segment;
    ++of.users;
  }
  ~OwnUse() override { --slot->users; }
};

struct Described {
  Slot* slot = nullptr;
  ipc::Access access{};
};

struct ForeignSegment {
  Described described;
  LocalPtr segment;
  [[nodiscard]] static std::uint64_t size() noexcept { return segment_bytes; }
};

struct End;

/// A stream of a process: how much work it has been given, how much it has done, and what it does at which point.
struct Work {
  struct Action {
    std::uint64_t position;
    std::weak_ptr<End> end;  // whose page it writes
    PagePoint point;
  };
  std::uint64_t issued = 0, reached = 0;
  std::deque<Action> actions;
};

/// What the owner of a buffer wants to be complete before the peer uses it.
struct Need {
  const Work* work = nullptr;
  std::uint64_t position = 0;
  [[nodiscard]] bool met() const noexcept { return !work || work->reached >= position; }
};

struct Arrival {
  std::uint64_t grant;
  std::uint32_t number;
  Slot* slot;
  LocalPtr segment;
  PagePoint ready;
  Need need;
};

struct Loan final : Use {
  Loan(std::shared_ptr<End> over, const Arrival& from);
  /// Return whether the stream that waits for the peer's point goes on, and if it does, that it may.
  [[nodiscard]] bool is_ready() const;
  ~Loan() override;
  void orphan();
  std::shared_ptr<End> end;
  std::uint64_t grant;
  PagePoint ready;
  Need need;
  bool counts = true;
};

/// One end of a connection.
struct End : std::enable_shared_from_this<End> {
  std::size_t process = 0;
  std::weak_ptr<End> peer;
  Lender<UsePtr> lender;
  Borrower<ForeignSegment> borrower{window};
  std::deque<std::vector<std::byte>> incoming;
  std::vector<std::byte> packet;  // that is being read
  Unread unread;
  std::deque<Arrival> arrived;
  std::vector<Loan*> loans;
  std::vector<std::uint32_t> retired;
  Words given{words};
  std::array<std::uint64_t, words> page{};  // as this end wrote it
  std::map<std::uint64_t, Need> needs;      // by grant
  bool greeted = false, gone = false, told_page = false;
};

Loan::Loan(std::shared_ptr<End> over, const Arrival& from)
    : end(std::move(over)), grant(from.grant), ready(from.ready), need(from.need) {
  slot = from.slot;
  segment = from.segment;
  ++slot->loans;
  end->loans.push_back(this);
}
bool Loan::is_ready() const {
  const bool reached = ready.value == 0 || end->peer.lock()->page.at(ready.word) >= ready.value;
  if (reached) {
    EXPECT_TRUE(need.met()) << "the buffer is used before the work on it is complete";
  }
  return reached;
}
void Loan::orphan() {
  if (std::exchange(counts, false)) --slot->loans;
}
Loan::~Loan() {
  orphan();
  std::erase(end->loans, this);
  end->borrower.end(grant);
}

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < processes; ++i) {
      for (std::size_t j = i + 1; j < processes; ++j) connect(i, j);
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].segment = std::make_shared<Local>(*this, owner_of(i));
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() {
    for (auto& held : held_) held.clear();
    for (const auto& end : ends_) {
      end->arrived.clear();
      hang_up(*end);
    }
    for (Slot& slot : slots_) slot.segment.reset();
  }

  void run() {
    const std::size_t steps = 40 + draw(80);
    for (std::size_t i = 0; i < steps; ++i) step(true);
    for (const auto& end : ends_) end->greeted = end->greeted || end->gone;
    for (std::size_t i = 0; i < processes; ++i) held_[i].clear();
    for (int round = 0; round < 12; ++round) {  // a chain of all processes, there and back
      for (std::size_t i = 0; i < processes; ++i) {
        for (Work& work : works_[i]) do_work(i, work, work.issued);
      }
      for (const auto& end : ends_) settle(*end);
    }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (!alive_[owner_of(i)]) continue;
      EXPECT_EQ(slots_[i].users, 0) << "slot " << i << " never came back";
    }
    for (const auto& end : ends_) {
      if (!alive_[end->process]) continue;
      if (alive_ == all_alive) {
        EXPECT_LE(end->lender.told(), 2 * segments_[end->process]) << "segments that are gone are still known";
      }
      if (!end->gone) {
        EXPECT_EQ(end->lender.room(), window);
      }
    }
  }

 private:
  std::size_t draw(std::size_t below) { return random_() % below; }
  bool one_in(std::size_t n) { return draw(n) == 0; }
  static constexpr std::size_t owner_of(std::size_t slot) { return slot % processes; }

  void connect(std::size_t i, std::size_t j) {
    auto one = std::make_shared<End>(), other = std::make_shared<End>();
    one->process = i;
    other->process = j;
    one->peer = other;
    other->peer = one;
    for (const auto& end : {one, other}) {
      PacketWriter packet;
      (void)packet.add(Hello{protocol_version, window});
      transmit(*end, packet);
      ends_.push_back(end);
    }
  }

  static void transmit(End& from, const PacketWriter& packet) {
    const auto peer = from.peer.lock();
    if (peer && !peer->gone) peer->incoming.emplace_back(packet.bytes().begin(), packet.bytes().end());
  }

  void step(bool faults) {
    End& end = *ends_[draw(ends_.size())];
    if (!alive_[end.process]) return;
    switch (draw(12)) {
      case 0:
      case 1:
      case 2: return send(end, faults);
      case 3:
      case 4: return deliver(end, faults);
      case 5:
      case 6: return take(end);
      case 7: return drop(end.process);
      case 8: return pay(end, faults && one_in(4));
      case 9: ++works_[end.process][draw(streams)].issued; return;
      case 10: return progress(end.process);
      default:
        if (one_in(3)) renew(draw(slots_.size()));
        if (faults && one_in(25)) die(end.process);
    }
  }

  // Use a slot of the process, or pass on something that it holds.
  UsePtr something(std::size_t process) {
    auto& held = held_[process];
    if (!held.empty() && one_in(2)) {
      const UsePtr chosen = held[draw(held.size())];
      if (is_ready(*chosen)) return chosen;
    }
    for (std::size_t i = process; i < slots_.size(); i += processes) {
      Slot& slot = slots_[i];
      if (slot.users != 0) continue;
      EXPECT_EQ(slot.loans, 0) << "slot " << i << " goes to somebody else, and a living process uses it";
      return std::make_shared<OwnUse>(slot);
    }
    return nullptr;
  }

  void send(End& end, bool faults) {
    if (end.gone || end.lender.room() == 0) return;
    const UsePtr use = something(end.process);
    if (!use || !end.lender.takes_files(use->segment->files)) return;
    PacketWriter packet;
    owe(end, packet);
    std::vector<std::uint64_t> lent;
    const ToldOf what{use->segment.get(), one_in(2) ? ipc::Access::read_only : ipc::Access::read_write};
    const auto told = end.lender.tell(what);
    if (told.first) {
      const std::size_t files = use->segment->files;
      std::vector<std::byte> descriptor(detail::wire_size + (files == 1 ? 0 : files * detail::wire_part_size));
      const Described described{use->slot, what.access};
      std::memcpy(descriptor.data(), &described, sizeof described);
      (void)packet.add(Segment{told.number, descriptor});
      if (files != 1) end.lender.tell_files(files);
    }
    const std::size_t stream = draw(streams);
    Work& work = works_[end.process][stream];
    const Need need{&work, work.issued};
    PagePoint ready;
    if (!need.met()) {
      const auto point = record(end, work, 1 + stream);
      if (!point) return undo(end, told, what);
      ready = *point;
      if (!end.told_page) (void)packet.add(Page{});
    }
    const std::array wanted{static_cast<std::byte>(what.access)};
    do {
      lent.push_back(end.lender.lend(use));
      end.needs[lent.back()] = need;
      (void)packet.add(Grant{lent.back(), told.number, draw(100), 1 + draw(100), ready, wanted});
    } while (end.lender.room() != 0 && one_in(3));
    if (faults && one_in(6)) {  // the socket is full
      const bool lies = one_in(8);
      if (lies) answer_unsent(end, lent);
      bool answered = false;
      for (const auto number : lent) answered = !end.lender.unlend(number) || answered;
      EXPECT_EQ(answered, lies) << "whether the peer answered what was not sent";
      if (answered) return cut_off(end);
      return undo(end, told, what);
    }
    end.told_page = end.told_page || ready.value != 0;
    if (one_in(2)) drop(end.process);  // other threads go on while the packet is sent
    end.borrower.told();
    end.retired.clear();
    transmit(end, packet);
  }

  // The peer guesses the numbers of grants that it was not sent, or takes so many buffers.
  void answer_unsent(End& end, const std::vector<std::uint64_t>& lent) {
    if (one_in(2)) return end.lender.credit(window - end.lender.room());
    (void)end.lender.release(lent[draw(lent.size())]);
  }

  // Whoever lies may go on with the memory, but nobody owes it anything any more. It may as well be dead.
  void cut_off(End& end) {
    die(end.peer.lock()->process);
    hang_up(end);
    end.arrived.clear();
  }

  static void undo(End& end, const Lender<UsePtr>::Told& told, const ToldOf& what) {
    end.borrower.untold();
    if (told.first) end.lender.untell(what);
  }

  // Return the present point of a stream; nothing if the words are other streams'.
  static std::optional<PagePoint> record(End& end, Work& work, std::uint64_t id) {
    const auto word = end.given.of(id, [&](PagePoint point) { return end.page.at(point.word) >= point.value; });
    if (!word) return std::nullopt;
    if (const auto again = end.given.given(*word, work.issued)) return again;
    const PagePoint point = end.given.next(*word);
    end.given.give(*word, ++work.issued);
    work.actions.push_back({work.issued, end.weak_from_this(), point});
    return point;
  }

  void progress(std::size_t process) {
    Work& work = works_[process][draw(streams)];
    if (work.reached < work.issued) do_work(process, work, work.reached + 1 + draw(work.issued - work.reached));
  }

  void do_work(std::size_t process, Work& work, std::uint64_t until) {
    if (!alive_[process]) return;
    for (work.reached = until; !work.actions.empty() && work.actions.front().position <= until;) {
      const auto end = work.actions.front().end.lock();
      const PagePoint point = work.actions.front().point;
      work.actions.pop_front();
      EXPECT_LT(end->page.at(point.word), point.value) << "values only grow";
      end->page.at(point.word) = point.value;
    }
  }

  static bool is_ready(const Use& use) {
    const auto* const loan = dynamic_cast<const Loan*>(&use);
    return !loan || loan->is_ready();
  }

  static void owe(End& end, PacketWriter& packet) {
    end.borrower.tell(packet);
    for (const auto number : end.retired) (void)packet.add(Retire{number});
  }

  static void pay(End& end, bool full) {
    if (end.gone) return;
    PacketWriter packet;
    owe(end, packet);
    if (packet.empty()) return;
    if (full) return end.borrower.untold();
    end.borrower.told();
    end.retired.clear();
    transmit(end, packet);
  }

  void deliver(End& end, bool faults) {
    if (end.gone) return;
    if (end.unread.empty() && end.incoming.empty()) {
      const auto peer = end.peer.lock();
      if (!alive_[peer->process]) hang_up(end);
      return;
    }
    if (end.unread.empty()) {
      end.packet = std::move(end.incoming.front());
      end.incoming.pop_front();
      end.unread.came({end.packet, count_files(end.packet)});
    }
    std::vector<UsePtr> back;
    try {
      end.unread.apply([&](const Message& message) {
        if (faults && one_in(8)) throw std::bad_alloc();
        apply(end, message, back);
      });
    } catch (const std::bad_alloc&) {  // the rest is read later
    }
  }

  static std::size_t count_files(std::span<const std::byte> bytes) {
    std::size_t count = 0;
    PacketReader packet(bytes, 1000);
    try {
      while (const auto message = packet.next()) {
        if (const auto* const segment = std::get_if<Segment>(&*message)) count += segment->files();
        if (std::holds_alternative<Page>(*message)) ++count;
      }
    } catch (const Error&) {  // of the files that are too many
    }
    return count;
  }

  void apply(End& end, const Message& message, std::vector<UsePtr>& back) {
    if (const auto* const hello = std::get_if<Hello>(&message)) {
      end.lender.open_window(hello->window);
      end.greeted = true;
    } else if (const auto* const segment = std::get_if<Segment>(&message)) {
      Described described;
      std::memcpy(&described, segment->descriptor.data(), sizeof described);
      end.borrower.add(segment->number, {described, std::make_shared<Local>(*this, end.process)}, segment->files());
    } else if (const auto* const grant = std::get_if<Grant>(&message)) {
      const ForeignSegment& memory = end.borrower.check(*grant);
      end.borrower.arrive(grant->segment);
      EXPECT_EQ(static_cast<std::byte>(memory.described.access), grant->payload[0])
          << "lent with another access than was asked for";
      end.arrived.push_back(
          {grant->number, grant->segment, memory.described.slot, memory.segment, grant->ready,
           end.peer.lock()->needs.at(grant->number)});
    } else if (std::holds_alternative<Page>(message)) {
      end.borrower.add_page();
    } else if (const auto* const releases = std::get_if<Releases>(&message)) {
      for (std::size_t i = 0; i < releases->size(); ++i) back.push_back(end.lender.release((*releases)[i]));
    } else if (const auto* const credit = std::get_if<Credit>(&message)) {
      end.lender.credit(credit->buffers);
    } else if (const auto* const retire = std::get_if<Retire>(&message)) {
      (void)end.borrower.retire(retire->segment);
    }
  }

  void take(End& end) {
    if (end.arrived.empty()) return;
    const Arrival next = end.arrived.front();
    end.arrived.pop_front();
    end.borrower.take(next.number);
    auto loan = std::make_shared<Loan>(end.shared_from_this(), next);
    const bool alive = alive_[end.peer.lock()->process];
    if (!alive) loan->orphan();
    if (!loan->is_ready() && !alive) return;  // the buffer is lost
    held_[end.process].push_back(std::move(loan));
  }

  void drop(std::size_t process) {
    auto& held = held_[process];
    if (held.empty()) return;
    const auto at = held.begin() + static_cast<std::ptrdiff_t>(draw(held.size()));
    if (!is_ready(**at)) {  // the stream has not got there, and if the peer is alive, it will
      const auto& loan = static_cast<const Loan&>(**at);
      if (alive_[loan.end->peer.lock()->process]) return;
    }
    const UsePtr dropped = std::move(*at);
    held.erase(at);
  }

  // The driver has the memory back, and gives it again as another segment.
  void renew(std::size_t slot) {
    if (slots_[slot].users != 0) return;
    slots_[slot].segment.reset();  // so that the next segment may have its address
    slots_[slot].segment = std::make_shared<Local>(*this, owner_of(slot));
  }

  friend struct Local;
  void tell_of_end(const Local& segment) {
    for (const auto& end : ends_) {
      if (end->process != segment.process) continue;
      for (const ipc::Access access : {ipc::Access::read_only, ipc::Access::read_write}) {
        if (const auto number = end->lender.ended({&segment, access})) end->retired.push_back(*number);
      }
    }
  }

  // Nobody keeps what a dead process had lent, whether it was its own or passed on.
  void die(std::size_t process) {
    alive_[process] = false;
    for (const auto& end : ends_) {
      if (end->process != process) continue;
      for (Loan* const loan : end->loans) loan->orphan();
      for (Loan* const loan : end->peer.lock()->loans) loan->orphan();
      (void)hang_up(*end);
      end->arrived.clear();
    }
    held_[process].clear();
  }

  // What came before can still be taken.
  static void hang_up(End& end) {
    end.gone = true;
    end.incoming.clear();
    end.unread.forget();
    const auto back = end.lender.end();
    (void)end.borrower.end();
    end.retired.clear();
  }

  void settle(End& end) {
    if (!alive_[end.process]) return;
    while (!(end.incoming.empty() && end.unread.empty()) && !end.gone) deliver(end, false);
    deliver(end, false);
    while (!end.arrived.empty()) take(end);
    for (const UsePtr& held : held_[end.process]) {
      const auto* const loan = dynamic_cast<const Loan*>(held.get());
      if (loan && !loan->is_ready()) {
        EXPECT_FALSE(alive_[loan->end->peer.lock()->process]) << "the point of a living process is never reached";
      }
    }
    held_[end.process].clear();
    pay(end, false);
  }

  std::mt19937_64 random_;
  std::array<std::size_t, processes> segments_{};  // that live, by process
  std::array<Slot, 2 * processes> slots_{};
  static constexpr std::array<bool, processes> all_alive{true, true, true};
  std::array<bool, processes> alive_ = all_alive;
  std::vector<std::shared_ptr<End>> ends_;
  std::array<std::vector<UsePtr>, processes> held_;
  std::array<std::array<Work, streams>, processes> works_;
};

Local::Local(World& in, std::size_t of) : world(in), process(of), files(in.one_in(3) ? 100 : 1) { ++in.segments_[of]; }
Local::~Local() {
  --world.segments_[process];
  world.tell_of_end(*this);
}

TEST(ChannelSimulation, NothingIsUsedTwiceAndEverythingComesBack) {
  play_seeds("WEIR_CHANNEL_SEED", 60000, [](std::uint64_t seed) { World(seed).run(); });
}

}  // namespace
}  // namespace weir::test
