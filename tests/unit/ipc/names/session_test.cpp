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

TEST_F(NamesSession, RefusalsHaveNoControlCharacters) {
  const auto packet = Session::refuse(1, Reason::failed, "a\nb" + std::string(1000, 'x'));
  EXPECT_EQ(std::get<Refused>(decode_answer(packet)).text.substr(0, 3), "a b");
}

}  // namespace
}  // namespace weir::test
