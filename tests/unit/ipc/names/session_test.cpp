// SPDX-License-Identifier: Apache-2.0
// The server's half of a connection, without files and clocks.

#include "ipc/names/session.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "expect.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"

namespace weir::test {
namespace {

using namespace detail::names;

class NamesSession : public testing::Test {
 protected:
  void publish(const std::string& name) {
    directory.publish(std::make_shared<Publication>(
        Publication{{name, 0, Layout::compact(u8, {10}), 10, "here"}, resource->allocate(10, stream), ipc::Access::read_write, stream}));
  }
  [[nodiscard]] Session session(std::size_t most_loans = 4) {
    return {directory, ledger, ledger.enter(1000), most_loans};
  }
  [[nodiscard]] Session greeted(const std::string& pattern = "") {
    Session made = session();
    const Reply reply = made.take(encode(Question(Hello{protocol_version, pattern})));
    EXPECT_TRUE(std::holds_alternative<Welcome>(decode_answer(reply.packet)));
    EXPECT_EQ(reply.opens_channel, pattern.empty());
    return made;
  }
  static Reason reason_of(const Packet& packet) { return std::get<Refused>(decode_answer(packet)).reason; }
  static std::optional<ipc::News> news_of(Session& session) {
    const auto packet = session.news();
    return packet ? std::optional(std::get<ipc::News>(decode_answer(*packet))) : std::nullopt;
  }

  Stream stream{host_device()};
  ResourcePtr resource = make_resource(host_device());
  Directory directory{4, 3};
  Ledger ledger;
};

TEST(NamesLedger, KeepsAPlaceForEachUser) {
  Ledger ledger;
  const std::vector<std::uint32_t> users{1, 2, 3};
  EXPECT_TRUE(ledger.has_room(1, 4, users));
  const auto first = ledger.enter(1);
  EXPECT_TRUE(ledger.has_room(1, 4, users));
  const auto second = ledger.enter(1);
  EXPECT_FALSE(ledger.has_room(1, 4, users)) << "two others have no client yet";
  EXPECT_TRUE(ledger.has_room(2, 4, users));
  (void)ledger.enter(2);
  EXPECT_FALSE(ledger.has_room(2, 4, users));
  EXPECT_TRUE(ledger.has_room(3, 4, users));
  (void)ledger.enter(3);
  EXPECT_FALSE(ledger.has_room(3, 4, users)) << "it is full";
  ledger.leave(second);
  EXPECT_TRUE(ledger.has_room(1, 4, users)) << "each user has a client";
  ledger.leave(first);
  EXPECT_EQ(ledger.clients(), 2U);
  EXPECT_FALSE(ledger.has_room(2, 3, users)) << "the first one has none again";
}

TEST_F(NamesSession, BeginsWithOneGreeting) {
  Session made = session();
  EXPECT_ERROR(made.take(encode(Question(GetTensor{1, "a"}))), Errc::corrupt_descriptor, "no greeting");
  Session other = greeted();
  EXPECT_ERROR(other.take(encode(Question(Hello{protocol_version, ""}))), Errc::corrupt_descriptor, "second greeting");
  Session news = greeted("*");
  EXPECT_ERROR(news.take(encode(Question(GetTensor{1, "a"}))), Errc::corrupt_descriptor, "for news");
  Session old = session();
  const Reply reply = old.take(encode(Question(Hello{protocol_version + 1, ""})));
  EXPECT_EQ(reason_of(reply.packet), Reason::version);
  EXPECT_TRUE(reply.ends);
  EXPECT_FALSE(old.greeted());
}

TEST_F(NamesSession, LendsWithinItsBound) {
  publish("a");
  Session made = greeted();
  EXPECT_EQ(reason_of(made.take(encode(Question(GetTensor{1, "b"}))).packet), Reason::unknown_name);
  std::vector<std::shared_ptr<const void>> marks;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const Reply reply = made.take(encode(Question(GetTensor{i + 2, "a"})));
    ASSERT_TRUE(reply.lends);
    EXPECT_EQ(reply.request, i + 2);
    EXPECT_EQ(std::get<GotTensor>(decode_answer(reply.packet)).request, i + 2);
    marks.push_back(made.mark(reply.lends->listing));
  }
  const Reply reply = made.take(encode(Question(GetTensor{9, "a"})));
  EXPECT_EQ(reason_of(reply.packet), Reason::too_many_loans);
  EXPECT_FALSE(reply.lends);
  marks.pop_back();
  EXPECT_TRUE(made.take(encode(Question(GetTensor{9, "a"}))).lends);
  Session other = greeted();
  EXPECT_TRUE(other.take(encode(Question(GetTensor{9, "a"}))).lends) << "the bound is each client's own";
}

TEST_F(NamesSession, NewsBeginAtTheGreetingAndAreForgotten) {
  publish("a");
  Session news = greeted("*");
  Session slow = greeted("*");
  Session other = greeted("b");
  EXPECT_FALSE(news_of(news));
  publish("b");
  EXPECT_EQ(news_of(news)->tensor.name, "b");
  EXPECT_FALSE(news_of(news));
  publish("a");
  publish("a");
  EXPECT_TRUE(directory.withdraw("b"));  // the directory remembers three changes
  for (const std::uint64_t version : {3U, 4U, 5U}) EXPECT_EQ(news_of(news)->tensor.version, version);
  const auto missed = news_of(slow);
  ASSERT_TRUE(missed);
  EXPECT_EQ(missed->change, ipc::Change::missed);
  EXPECT_EQ(missed->tensor.version, 5U);
  EXPECT_FALSE(news_of(slow));
  EXPECT_EQ(news_of(other)->change, ipc::Change::missed) << "what it missed might have concerned it";
}

TEST_F(NamesSession, ThoseThatLeaveStayInTheBooksWhileTheyHoldSomething) {
  publish("a");
  Session made = greeted();
  auto mark = made.mark(directory.find("a")->listing);
  auto another = made.mark(directory.find("a")->listing);
  EXPECT_EQ(ledger.loans(made.client()), 2U);
  ledger.leave(made.client());
  EXPECT_EQ(ledger.clients(), 1U);
  EXPECT_FALSE(ledger.guests().at(0).connected);
  mark.reset();
  EXPECT_EQ(ledger.guests().at(0).loans.at(0).count, 1U);
  another.reset();
  EXPECT_EQ(ledger.clients(), 0U);
}

TEST_F(NamesSession, AReplacedTensorIsLetGo) {
  publish("a");
  const auto held = directory.find("a");
  std::weak_ptr<const Publication> first = held;
  publish("a");
  EXPECT_NE(directory.find("a"), held);
  EXPECT_EQ(first.use_count(), 1) << "only this test has it";
  EXPECT_EQ(held->listing.version, 1U);
}

// A question costs the server what its answer holds, so that no client keeps it from the others.
TEST_F(NamesSession, ListsLookAtNothingThatTheyDoNotShow) {
  Directory many{2000, 3};
  for (int i = 0; i < 1000; ++i) {
    ipc::Listing listing{"x" + std::to_string(1000 + i), 0, Layout::compact(u8, {10}), 10, "here"};
    many.publish(std::make_shared<Publication>(
        Publication{std::move(listing), resource->allocate(10, stream), ipc::Access::read_write, stream}));
  }
  const auto listed = [&](const std::string& pattern, const std::string& after, std::size_t most = 1000) {
    std::vector<const ipc::Listing*> all;
    const auto looked_at = many.each(pattern, after, [&](const ipc::Listing& listing) {
      all.push_back(&listing);
      return all.size() < most;
    });
    for (const auto* one : all) EXPECT_EQ(one, &many.find(one->name)->listing) << "a copy";
    EXPECT_LE(looked_at, all.size() + 1) << pattern << " after " << after;
    return all.size();
  };
  EXPECT_EQ(listed("*", ""), 1000U);
  EXPECT_EQ(listed("*", "", 7), 7U);
  EXPECT_EQ(listed("*", "x1989"), 10U);
  EXPECT_EQ(listed("x19*", ""), 100U);
  EXPECT_EQ(listed("x19*", "x1"), 100U);
  EXPECT_EQ(listed("x19*", "x1989"), 10U);
  EXPECT_EQ(listed("x19*", "x2"), 0U);
  EXPECT_EQ(listed("x1000*", "x1000"), 0U);
  EXPECT_EQ(listed("x1500", ""), 1U);
  EXPECT_EQ(listed("x1500", "x1500"), 0U);
  EXPECT_EQ(listed("x150", ""), 0U);
  EXPECT_EQ(listed("z*", ""), 0U);
  EXPECT_EQ(listed("a*", ""), 0U);
  EXPECT_EQ(listed("", ""), 0U);
}

TEST_F(NamesSession, BooksAreReadFromWhereTheListGoesOn) {
  std::vector<std::shared_ptr<const void>> marks;
  const auto first = ledger.enter(1), second = ledger.enter(2), last = ledger.enter(3);
  const auto lend = [&](std::uint64_t client, std::uint64_t version) {
    marks.push_back(ledger.lend(client, {"x", version, {}, 10, ""}));
  };
  for (std::uint64_t version = 1; version <= 100; ++version) lend(first, version);
  for (std::uint64_t version = 1; version <= 100; ++version) lend(last, version);
  using Entry = std::pair<std::uint64_t, std::uint64_t>;  // client, version; 0 for one without loans
  const auto listed = [&](std::uint64_t after, std::uint64_t version, std::size_t most) {
    std::vector<Entry> shown;
    const auto looked_at = ledger.each(after, version, [&](const ipc::Guest& entry) {
      EXPECT_LE(entry.loans.size(), 1U);
      shown.emplace_back(entry.number, entry.loans.empty() ? 0 : entry.loans.front().version);
      return shown.size() < most;
    });
    EXPECT_LE(looked_at, shown.size() + 3) << "and three clients";
    return shown;
  };
  EXPECT_EQ(listed(0, 0, 1000).size(), 201U);
  EXPECT_EQ(listed(0, 0, 1), (std::vector<Entry>{{first, 1}}));
  EXPECT_EQ(listed(first, 99, 3), (std::vector<Entry>{{first, 100}, {second, 0}, {last, 1}}));
  EXPECT_EQ(listed(first, 100, 1), (std::vector<Entry>{{second, 0}}));
  EXPECT_EQ(listed(second, 0, 1), (std::vector<Entry>{{last, 1}}));
  EXPECT_EQ(listed(last, 98, 9), (std::vector<Entry>{{last, 99}, {last, 100}}));
  EXPECT_TRUE(listed(last, 100, 9).empty());
  marks.erase(marks.begin(), marks.begin() + 99);
  ledger.leave(second);
  EXPECT_EQ(ledger.each(0, 0, [](const ipc::Guest&) { return true; }), 202U) << "those that are over, once";
  EXPECT_EQ(listed(0, 0, 2), (std::vector<Entry>{{first, 100}, {last, 1}}));
  marks.clear();
  EXPECT_EQ(ledger.each(0, 0, [](const ipc::Guest&) { return true; }), 103U);
  EXPECT_EQ(listed(0, 0, 9), (std::vector<Entry>{{first, 0}, {last, 0}}));
}

TEST_F(NamesSession, RefusalsAreTexts) {
  const auto packet = Session::refuse(1, Reason::failed, "a\nb\xff" + std::string(507, 'x') + "\xc3\xa9");
  EXPECT_EQ(std::get<Refused>(decode_answer(packet)).text, "a b " + std::string(507, 'x'));
}

}  // namespace
}  // namespace weir::test
