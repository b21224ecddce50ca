// SPDX-License-Identifier: Apache-2.0
#pragma once
// A connection of a played server and client. Packets wait in its queues; the state machines are the real ones.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ipc/channel/borrower.hpp"
#include "ipc/channel/lender.hpp"
#include "ipc/names/requests.hpp"
#include "ipc/names/session.hpp"

namespace weir::test::played_names {

using namespace detail::names;
namespace channel = detail::channel;

inline constexpr std::uint32_t window = 2;
inline constexpr std::size_t socket_room = 2;  // packets

/// What a server keeps for a buffer that it lent.
struct Lent {
  PublicationPtr publication;
  std::shared_ptr<const void> mark;
};

/// Memory as a client knows it: the version that was published there.
struct Memory {
  std::uint64_t version = 0;
  [[nodiscard]] static std::uint64_t size() noexcept { return 1; }
};

/// A packet of a channel that lends.
struct Granting {
  std::vector<std::byte> bytes;
  std::size_t files;
};

/// A question that waits for its answer, or for the buffer of its answer.
struct Asked {
  std::string name;
  std::uint64_t answer = 0;  // the version of what was got
};

/// Both ends. The members that are functions are what the client does.
struct Line {
  Line(const Session& made, const Directory& published, std::uint32_t first)
      : session(made), directory(published), requests(first) {}

  // The server's end.
  Session session;
  const Directory& directory;
  channel::Lender<Lent> lender;
  std::deque<Packet> answers;
  std::deque<Granting> lends;

  // The client's end.
  struct Arrived {
    std::uint64_t number, version;
    std::vector<std::byte> payload;
    std::uint32_t segment;
  };
  Requests requests;
  channel::Borrower<Memory> borrower{window};
  std::deque<Packet> questions;
  std::deque<std::vector<std::byte>> returns;
  std::deque<Arrived> arrived;
  std::optional<Asked> asked;
  std::multimap<std::uint64_t, std::uint64_t> held;  // version, number of the grant
  std::string pattern;                               // of a subscriber
  std::map<std::string, std::uint64_t> heard;        // names and versions
  std::uint64_t listed = 0, newest = 0;              // versions of the list and of the last news

  void hear() {
    if (answers.empty()) return finish();
    const Answer answer = decode_answer(answers.front());
    answers.pop_front();
    if (std::holds_alternative<Welcome>(answer)) return relist();
    if (const auto* const news = std::get_if<ipc::News>(&answer)) return hear_news(*news);
    if (!requests.is_answered_by(answer) || !asked) return;
    if (const auto* const got = std::get_if<GotTensor>(&answer)) {
      EXPECT_EQ(got->tensor.name, asked->name);
      asked->answer = got->tensor.version;
      if (got->tensor.bytes == 0) asked.reset();
    } else {
      asked.reset();
    }
    finish();
  }
  void receive() {
    for (; !lends.empty(); lends.pop_front()) {
      channel::PacketReader packet(lends.front().bytes, lends.front().files);
      while (const auto message = packet.next()) {
        if (const auto* const segment = std::get_if<channel::Segment>(&*message)) {
          Memory memory;
          std::memcpy(&memory.version, segment->descriptor.data(), sizeof memory.version);
          borrower.add(segment->number, memory);
        } else if (const auto* const grant = std::get_if<channel::Grant>(&*message)) {
          const auto version = borrower.check(*grant).version;
          borrower.arrive(grant->segment);
          arrived.push_back({grant->number, version, {grant->payload.begin(), grant->payload.end()}, grant->segment});
        }
      }
    }
  }
  Arrived take() {
    Arrived next = std::move(arrived.front());
    arrived.pop_front();
    borrower.take(next.segment);
    return next;
  }
  void give_up() { borrower.end(take().number); }
  // Take the buffer of the answer, and give those back that earlier calls gave up.
  void finish() {
    if (!asked || asked->answer == 0) return;
    receive();
    while (!arrived.empty()) {
      if (!requests.brings(arrived.front().payload)) {
        give_up();
        continue;
      }
      const auto next = take();
      EXPECT_EQ(next.version, asked->answer) << "another tensor's memory";
      held.emplace(next.version, next.number);
      asked.reset();
      return;
    }
    ADD_FAILURE() << "the answer came before the buffer";
  }
  void hear_news(const ipc::News& news) {
    EXPECT_GT(news.tensor.version, newest) << "news out of order";
    newest = news.tensor.version;
    if (news.change == ipc::Change::missed) return relist();
    EXPECT_TRUE(matches(news.tensor.name, pattern));
    if (news.tensor.version <= listed) return;  // older than the list
    if (news.change == ipc::Change::published) {
      heard[news.tensor.name] = news.tensor.version;
    } else {
      heard.erase(news.tensor.name);
    }
  }

  void relist() {
    heard.clear();
    directory.each(pattern, "", [&](const ipc::Listing& listing) {
      heard[listing.name] = listing.version;
      return true;
    });
    listed = directory.version();
  }
};

}  // namespace weir::test::played_names
