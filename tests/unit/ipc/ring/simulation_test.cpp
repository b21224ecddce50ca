// SPDX-License-Identifier: Apache-2.0
// A ring with consumers that are played in this process: packets wait in queues, sockets are full, consumers come, hold
// what they have, leave and die between any two steps. The schedule of the frames and the halves of the channels are
// the real ones. First anything happens, and no slot is filled while a living consumer has it. Then nobody dies or lags
// any more, and everybody must have got, or be told to have missed, every frame. A seed plays a schedule again:
// WEIR_RING_SEED=n runs that one alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "ipc/ring/greeting.hpp"
#include "ipc/wire.hpp"
#include "played_ring.hpp"
#include "seeds.hpp"

namespace weir::test {
namespace {

using namespace played_rings;
using detail::ring::Greeting;

constexpr std::uint32_t segment = 1;

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed), drops_(one_in(2)) {}

  void run() {
    for (std::size_t i = 80 + draw(150); i-- > 0;) step();
    calm_ = true;
    settle_all();
    publish();  // consumers learn by this that they missed the last one
    settle_all();
    for (const LinePtr& line : lines_) expect_all(*line);
    EXPECT_EQ(schedule_.consumers().size(),
              static_cast<std::size_t>(
                  std::ranges::count_if(lines_, [](const LinePtr& line) { return line->lives && !line->removed; })));
    EXPECT_EQ(schedule_.waiting(), 0U) << "frames wait for nobody";
    EXPECT_LE(failures_, losses_) << "a loss is reported once";
    for (const Slot& slot : slots_) EXPECT_FALSE(slot.used) << "a slot never came back";
  }

 private:
  struct Loss {};
  /// Carries frames over the lines, as the links do.
  struct Wire {
    World& world;
    struct Capacity {
      std::uint32_t room;
      std::size_t lent;
      bool left, ended;
    };
    [[nodiscard]] static Capacity capacity(const LinePtr& line) {
      const bool left = line->removed || line->over;
      return {left ? 0 : line->lender.room(), line->lender.live(), left, line->over};
    }
    [[nodiscard]] bool greet(const LinePtr& line, std::uint64_t first) const {
      if (world.is_full()) return false;
      return put(*line, nullptr, 0, encode(Greeting{.first = first}), true);
    }
    template <class At>
    [[nodiscard]] std::size_t send(const LinePtr& line, At from, At to) const {
      std::size_t sent = 0;
      if (std::any_of(from, to, [](const auto& waiting) { return is_lost(waiting.frame); })) throw Loss();
      for (; from != to && !world.is_full(); ++from, ++sent) {
        const Slot& slot = from->frame.use->slot;
        EXPECT_EQ(slot.frame, from->sequence) << "a slot was filled again before everybody had been sent it";
        put(*line, from->frame.use, static_cast<std::uint64_t>(&slot - world.slots_.data()), from->frame.payload,
            false);
      }
      return sent;
    }
    static bool put(Line& line, std::shared_ptr<Use> use, std::uint64_t offset, std::span<const std::byte> payload,
                    bool first) {
      channel::PacketWriter packet;
      const std::array<std::byte, detail::wire_size> descriptor{};
      if (first) (void)packet.add(channel::Segment{segment, descriptor});
      const auto number = line.lender.lend(std::move(use));
      (void)packet.add(channel::Grant{number, segment, offset, 1, {}, payload});
      line.packets.emplace_back(packet.bytes().begin(), packet.bytes().end());
      return true;
    }
    void end(const LinePtr& line) const { line->removed = true; }
    void failed(const LinePtr&) const { ++world.failures_; }
    [[nodiscard]] static bool is_lost(const Frame& frame) noexcept { return frame.use->slot.lost; }
  };

  std::size_t draw(std::size_t below) { return random_() % below; }
  bool one_in(std::size_t n) { return draw(n) == 0; }
  bool is_full() { return !calm_ && one_in(6); }

  void step() {
    const LinePtr line = lines_.empty() ? nullptr : lines_[draw(lines_.size())];
    switch (draw(11)) {
      case 0:
      case 1:
      case 2: publish(); break;
      case 3: join(); break;
      case 4: serve(); break;
      case 5: lose(); break;
      default:
        if (line) act(*line, draw(7));
    }
  }
  void act(Line& line, std::size_t what) {
    switch (what) {
      case 0:
      case 1: receive(line); break;
      case 2: take(line); break;
      case 3: give_back(line); break;
      case 4: pay(line); break;
      case 5: hear(line); break;
      default:
        if (one_in(8)) line.removed = true;
        if (one_in(5)) die(line);
    }
  }

  void join() {
    if (schedule_.consumers().size() == most_consumers) return;
    auto line = std::make_shared<Line>(1 + static_cast<std::uint32_t>(draw(4)));
    line->first = line->expected = schedule_.published();
    (void)schedule_.add(line);
    lines_.push_back(std::move(line));
  }

  std::shared_ptr<Use> try_take() {
    for (Slot& slot : slots_) {
      if (slot.used) continue;
      EXPECT_EQ(slot.readers, 0) << "a slot is filled while a living consumer has it";
      return std::make_shared<Use>(slot);
    }
    return nullptr;
  }
  std::shared_ptr<Use> acquire() {
    if (auto slot = try_take()) return slot;
    if (!drops_) return nullptr;
    {
      const auto oldest =
          schedule_.drop([](const Frame& frame, const auto& /*all*/) { return frame.use.use_count() == 1; });
      EXPECT_TRUE(oldest) << "consumers hold up the producer";
    }
    return try_take();
  }
  void publish() {
    std::vector<Frame> frames;
    do {
      auto slot = frames.empty() || !drops_ ? acquire() : try_take();
      if (!slot) break;
      frames.push_back({std::move(slot), detail::ring::encode_frame({})});
    } while (one_in(3));
    (void)schedule_.publish(std::span(frames), [](Frame& frame, std::uint64_t sequence) {
      frame.use->slot.frame = sequence;
      detail::ring::number_frame(frame.payload, sequence);
    });
    serve();
  }
  void lose() {
    Slot& slot = slots_[draw(slots)];
    if (!slot.used || slot.lost || !one_in(3)) return;
    slot.lost = true;
    ++losses_;
  }
  void settle_all() {
    for (int i = 0; i < 60; ++i) {
      for (const LinePtr& line : lines_) settle(*line);
      serve();
    }
  }
  void serve() {
    std::vector<Schedule::Waiting> ended;
    schedule_.serve(Wire{*this}, ended);
    schedule_.forget(Wire{*this}, ended);
    for (const LinePtr& line : lines_) EXPECT_LE(line->lender.live(), per_consumer);
  }

  // The producer reads what a consumer says, or that it is gone.
  void hear(Line& line) {
    for (; !line.returns.empty() && !line.over; line.returns.pop_front()) {
      channel::PacketReader packet(line.returns.front(), 0);
      while (const auto message = packet.next()) {
        if (const auto* const credit = std::get_if<channel::Credit>(&*message)) line.lender.credit(credit->buffers);
        if (const auto* const back = std::get_if<channel::Releases>(&*message)) {
          for (std::size_t i = 0; i < back->size(); ++i) (void)line.lender.release((*back)[i]);
        }
      }
    }
    if (!line.lives && !std::exchange(line.over, true)) (void)line.lender.end();
  }

  // What a consumer does.
  void receive(Line& line) {
    if (line.packets.empty() || !line.lives) return;
    const auto bytes = std::move(line.packets.front());
    line.packets.pop_front();
    channel::PacketReader packet(bytes, line.borrower.segments() == 0 ? 1 : 0);
    while (const auto message = packet.next()) {
      if (std::holds_alternative<channel::Segment>(*message)) line.borrower.add(segment, {});
      if (const auto* const grant = std::get_if<channel::Grant>(&*message)) {
        (void)line.borrower.check(*grant);
        line.borrower.arrive(segment);
        line.arrived.push_back({grant->number, grant->offset, {grant->payload.begin(), grant->payload.end()}});
      }
    }
  }
  void take(Line& line) {
    if (line.arrived.empty() || !line.lives) return;
    auto next = std::move(line.arrived.front());
    line.arrived.pop_front();
    line.borrower.take(segment);
    if (!std::exchange(line.greeted, true)) {
      EXPECT_EQ(detail::ring::decode_greeting(next.payload).first, line.first);
      return line.borrower.end(next.number);
    }
    const auto sequence = detail::ring::take_sequence(next.payload);
    EXPECT_GE(sequence, line.expected) << "a frame comes after a later one";
    line.missed += sequence - line.expected;
    line.expected = sequence + 1;
    ++line.received;
    Slot& slot = slots_[next.offset];
    EXPECT_EQ(slot.frame, sequence) << "a frame has the bytes of another one";
    ++slot.readers;
    line.held.push_back(std::move(next));
  }
  void give_back(Line& line) {
    if (line.held.empty() || !line.lives) return;
    --slots_[line.held.front().offset].readers;
    line.borrower.end(line.held.front().number);
    line.held.pop_front();
  }
  void pay(Line& line) {
    channel::PacketWriter packet;
    line.borrower.tell(packet);
    if (packet.empty() || !line.lives) return;
    if (is_full()) return line.borrower.untold();
    line.borrower.told();
    line.returns.emplace_back(packet.bytes().begin(), packet.bytes().end());
  }
  void die(Line& line) {
    while (!line.held.empty()) give_back(line);
    line.lives = false;
  }

  void settle(Line& line) {
    while (line.lives && !line.packets.empty()) receive(line);
    while (line.lives && !line.arrived.empty()) take(line);
    while (!line.held.empty()) give_back(line);
    pay(line);
    hear(line);
  }
  void expect_all(const Line& line) const {
    if (!line.lives || line.removed) return;
    EXPECT_EQ(line.expected, schedule_.published()) << "a consumer was not sent the last frames";
    EXPECT_EQ(line.received + line.missed, schedule_.published() - line.first);
    if (!drops_) {
      EXPECT_LE(line.missed, losses_) << "a frame was dropped";
    }
    for (const auto& consumer : schedule_.consumers()) {
      EXPECT_TRUE(consumer.line.get() != &line || consumer.missed == line.missed) << consumer.missed;
    }
  }

  std::mt19937_64 random_;
  const bool drops_;
  bool calm_ = false;
  std::size_t losses_ = 0, failures_ = 0;
  std::vector<Slot> slots_{slots};
  Schedule schedule_{per_consumer};
  std::vector<LinePtr> lines_;
};

TEST(RingSimulation, EveryFrameArrivesOrIsMissedAndEverySlotComesBack) {
  play_seeds("WEIR_RING_SEED", 20000, [](std::uint64_t seed) { World(seed).run(); });
}

}  // namespace
}  // namespace weir::test
