// SPDX-License-Identifier: Apache-2.0
// A server of names and its clients, played in this process: packets wait in queues, sockets are full, calls are given
// up, clients die between any two steps. The state machines are the real ones. First anything happens, and each tensor
// that a client gets must be the one that had the name, and must stay the client's. Then nobody dies or lags any more,
// and everything must come back. A seed plays a schedule again: WEIR_NAMES_SEED=n runs that one alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ipc/bytes.hpp"
#include "ipc/wire.hpp"
#include "played_line.hpp"
#include "seeds.hpp"
#include "weir/host.hpp"

namespace weir::test {
namespace {

using namespace played_names;

constexpr std::size_t most_loans = 3;

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) connect("");
    connect("*");
    connect("a*");
  }

  void run() {
    for (std::size_t i = 60 + draw(120); i-- > 0;) step(true);
    for (int i = 0; i < 60; ++i) {
      for (const auto& line : lines_) settle(*line);
    }
    for (const auto& line : lines_) {
      EXPECT_FALSE(line->asked) << "a question was never answered";
      EXPECT_EQ(ledger_.loans(line->session.client()), 0U) << "a loan never came back";
      EXPECT_EQ(line->lender.live(), 0U);
      if (line->session.subscribed()) expect_knows_all(*line);
    }
    EXPECT_EQ(ledger_.clients(), lines_.size());
    directory_.clear();
    for (const auto& publication : publications_) EXPECT_TRUE(publication.expired()) << "memory is kept for nobody";
  }

 private:
  std::size_t draw(std::size_t below) { return random_() % below; }
  bool one_in(std::size_t n) { return draw(n) == 0; }
  std::string some_name() { return std::vector<std::string>{"a", "ab", "b", "c"}[draw(4)]; }

  void connect(const std::string& pattern) {
    const std::uint32_t first = one_in(4) ? UINT32_MAX - static_cast<std::uint32_t>(draw(4)) : 0;
    auto line = std::make_shared<Line>(Session(directory_, ledger_, ledger_.enter(0), most_loans), directory_, first);
    line->pattern = pattern;
    line->questions.push_back(encode(Question(Hello{protocol_version, pattern})));
    line->lender.open_window(window);
    lines_.push_back(std::move(line));
  }
  void step(bool faults) {
    const auto line = lines_[draw(lines_.size())];
    switch (draw(9)) {
      case 0:
      case 1: serve(*line, faults); break;
      case 2: line->hear(); break;
      case 3: ask(*line); break;
      case 4: take_back(*line); break;
      case 5: drop(*line); break;
      case 6: pay(*line, faults); break;
      case 7: change(); break;
      default:
        if (faults && one_in(3)) line->asked.reset();  // its time is over
        if (faults && one_in(6)) die(line);
    }
    check();
  }

  void change() {
    const std::string name = some_name();
    if (one_in(4)) {
      (void)directory_.withdraw(name);
    } else {
      const std::size_t bytes = one_in(5) ? 0 : 1;
      auto made =
          std::make_shared<Publication>(Publication{{name, 0, Layout::compact(u8, {1}), bytes, "here"}, {}, ipc::Access::read_write, stream_});
      publications_.push_back(made);
      (void)directory_.publish(made);
    }
  }

  // What the visitor of a session does.
  void serve(Line& line, bool faults) {
    if (line.answers.size() == socket_room) return;
    if (line.session.subscribed()) {
      if (auto news = line.session.news()) return line.answers.push_back(*std::move(news));
    }
    if (line.questions.empty()) return;
    const Packet packet = std::move(line.questions.front());
    line.questions.pop_front();
    const Reply reply = line.session.take(packet);
    EXPECT_LE(ledger_.loans(line.session.client()), most_loans);
    if (!reply.lends) return line.answers.push_back(reply.packet);
    take_back(line);
    if (line.lender.room() == 0 || (faults && one_in(8)))
      return line.answers.push_back(Session::refuse(reply.request, Reason::busy, "full"));
    lend(line, reply);
    line.answers.push_back(reply.packet);
  }
  static void lend(Line& line, const Reply& reply) {
    channel::PacketWriter packet;
    const auto version = reply.lends->listing.version;
    const auto told =
        line.lender.tell({reinterpret_cast<const void*>(std::uintptr_t{version}), ipc::Access::read_write});
    if (told.first) {
      std::array<std::byte, detail::wire_size> descriptor{};
      std::memcpy(descriptor.data(), &version, sizeof version);
      (void)packet.add(channel::Segment{told.number, descriptor});
    }
    std::array<std::byte, sizeof reply.request> payload{};
    detail::put(payload, 0, reply.request);
    const auto number = line.lender.lend({reply.lends, line.session.mark(reply.lends->listing)});
    (void)packet.add(channel::Grant{number, told.number, 0, 1, {}, payload});
    line.lends.push_back({{packet.bytes().begin(), packet.bytes().end()}, told.first ? 1U : 0U});
  }
  // Read what came over the channel.
  static void take_back(Line& line) {
    for (; !line.returns.empty(); line.returns.pop_front()) {
      channel::PacketReader packet(line.returns.front(), 0);
      while (const auto message = packet.next()) {
        if (const auto* const credit = std::get_if<channel::Credit>(&*message)) line.lender.credit(credit->buffers);
        if (const auto* const back = std::get_if<channel::Releases>(&*message)) {
          for (std::size_t i = 0; i < back->size(); ++i) (void)line.lender.release((*back)[i]);
        }
      }
    }
  }

  // What a client does.
  void ask(Line& line) {
    if (line.asked || !line.pattern.empty() || line.questions.size() == socket_room) return;
    line.receive();
    while (!line.arrived.empty()) line.give_up();
    line.asked = Asked{some_name()};
    line.questions.push_back(encode(Question(GetTensor{line.requests.next(), line.asked->name})));
  }
  void drop(Line& line) {
    if (line.held.empty()) return;
    const auto at = std::next(line.held.begin(), static_cast<std::ptrdiff_t>(draw(line.held.size())));
    line.borrower.end(at->second);
    line.held.erase(at);
  }
  void pay(Line& line, bool faults) {
    channel::PacketWriter packet;
    line.borrower.tell(packet);
    if (packet.empty()) return;
    if (faults && one_in(4)) return line.borrower.untold();
    line.borrower.told();
    line.returns.emplace_back(packet.bytes().begin(), packet.bytes().end());
  }
  void die(const std::shared_ptr<Line>& line) {
    const std::string pattern = line->pattern;
    const auto kept = line->lender.end();
    ledger_.leave(line->session.client());
    std::erase(lines_, line);
    connect(pattern);
  }

  // What a client has, the server keeps.
  void check() {
    for (const ipc::Guest& guest : ledger_.guests()) {
      const auto line =
          std::ranges::find_if(lines_, [&](const auto& one) { return one->session.client() == guest.number; });
      if (line == lines_.end()) continue;
      std::map<std::uint64_t, std::size_t> kept;
      for (const ipc::Loan& loan : guest.loans) kept[loan.version] = loan.count;
      for (const auto& [version, number] : (*line)->held)
        EXPECT_GE(kept[version], (*line)->held.count(version)) << "memory goes to others while a client has it";
    }
  }

  void settle(Line& line) {
    serve(line, false);
    take_back(line);
    line.hear();
    line.receive();
    if (!line.asked) {
      while (!line.arrived.empty()) line.give_up();
    }
    while (!line.held.empty()) drop(line);
    pay(line, false);
  }
  void expect_knows_all(const Line& line) {
    Line now(line.session, directory_, 0);
    now.pattern = line.pattern;
    now.relist();
    EXPECT_EQ(line.heard, now.heard) << "a subscriber does not know what there is";
  }

  std::mt19937_64 random_;
  Stream stream_{host_device()};
  Directory directory_{4, 3};
  Ledger ledger_;
  std::vector<std::shared_ptr<Line>> lines_;
  std::vector<std::weak_ptr<const Publication>> publications_;
};

TEST(NamesSimulation, WhatClientsGetIsTheirsAndEverythingComesBack) {
  play_seeds("WEIR_NAMES_SEED", 20000, [](std::uint64_t seed) { World(seed).run(); });
}

}  // namespace
}  // namespace weir::test
