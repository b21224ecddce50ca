// SPDX-License-Identifier: Apache-2.0
// The bytes of the messages about names, as docs/ipc.md has them.

#include "ipc/names/messages.hpp"

#include <gtest/gtest.h>

#include <initializer_list>

#include "expect.hpp"

namespace weir::test {
namespace {

using namespace detail::names;

Packet packet_of(std::initializer_list<int> bytes) {
  Packet packet;
  for (const int byte : bytes) packet.push_back(static_cast<std::byte>(byte));
  return packet;
}

ipc::Listing listing() { return {"ab", 0x0102, {f32, {3, 5}, {5, -1}, 16}, 76, "host:0 shared"}; }

bool same(const ipc::Listing& a, const ipc::Listing& b) {
  return a.name == b.name && a.version == b.version && a.bytes == b.bytes && a.where == b.where &&
         a.layout.dtype == b.layout.dtype && a.layout.shape == b.layout.shape && a.layout.strides == b.layout.strides &&
         a.layout.byte_offset == b.layout.byte_offset;
}

TEST(NamesMessages, HaveTheseBytes) {
  EXPECT_EQ(encode(Question(Hello{1, "a*"})), packet_of({1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 'a', '*'}));
  EXPECT_EQ(encode(Question(ListNames{7, "*", "b"})), packet_of({2, 0, 0, 0, 7, 0, 0, 0, 1, 0, '*', 1, 0, 'b'}));
  EXPECT_EQ(encode(Question(GetTensor{0x0102, "a"})), packet_of({3, 0, 0, 0, 2, 1, 0, 0, 1, 0, 'a'}));
  EXPECT_EQ(encode(Question(ListGuests{1, 2, 3})),
            packet_of({4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(encode(Answer(Welcome{1})), packet_of({17, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(encode(Answer(Refused{5, Reason::busy, "x"})), packet_of({18, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 1, 0, 'x'}));
  EXPECT_EQ(encode(Answer(Names{5, true, {}})), packet_of({19, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(
      encode(Answer(GotTensor{5, {"a", 9, {u8, {2}, {1}, 3}, 7, "w"}})),
      packet_of({20, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0,   0, 0, 0,
                 0,  1, 8, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'a', 1, 0, 'w'}));
  EXPECT_EQ(encode(Answer(Guests{5, false, {{3, 1000, true, false, {}}}})),
            packet_of({21, 0, 0, 0, 5, 0, 0, 0, 0, 0, 1, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0xe8, 3, 0, 0, 1, 0, 0, 0}));
  ipc::News news{ipc::Change::withdrawn, {}};
  news.tensor.name = "a";
  news.tensor.version = 4;
  EXPECT_EQ(encode(Answer(news)), packet_of({22, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'a'}));
}

TEST(NamesMessages, AreReadAsTheyWereWritten) {
  const auto hello = std::get<Hello>(decode_question(encode(Question(Hello{1, "a*"}))));
  EXPECT_EQ(hello.pattern, "a*");
  const auto asks = std::get<ListNames>(decode_question(encode(Question(ListNames{7, "*", "b"}))));
  EXPECT_EQ(asks.after, "b");
  const auto got = std::get<GotTensor>(decode_answer(encode(Answer(GotTensor{5, listing()}))));
  EXPECT_TRUE(same(got.tensor, listing()));
  const auto names = std::get<Names>(decode_answer(encode(Answer(Names{5, true, {listing(), listing()}}))));
  EXPECT_TRUE(names.more);
  ASSERT_EQ(names.all.size(), 2U);
  EXPECT_TRUE(same(names.all[1], listing()));
  const ipc::Guest guest{3, 1000, true, true, {{"a", 4, 5, 6}}};
  const auto guests = std::get<Guests>(decode_answer(encode(Answer(Guests{5, false, {guest}}))));
  EXPECT_EQ(guests.all.at(0).loans.at(0).count, 5U);
  EXPECT_TRUE(guests.all[0].subscribed);
  const auto news = std::get<ipc::News>(decode_answer(encode(Answer(ipc::News{ipc::Change::published, listing()}))));
  EXPECT_TRUE(same(news.tensor, listing()));
  EXPECT_EQ(encode(Answer(Names{5, true, {listing()}})).size(), list_overhead + encoded_size(listing()));
  EXPECT_EQ(encode(Answer(Guests{5, false, {guest}})).size(), list_overhead + encoded_size(guest));
}

TEST(NamesMessages, ThatEndTooEarlyOrTooLateAreRefused) {
  const auto refuses = [](const Packet& packet, auto decode) {
    for (std::size_t size = 0; size < packet.size(); ++size)
      EXPECT_ERROR(decode(Bytes(packet).first(size)), Errc::corrupt_descriptor, "the packet ends within");
    Packet longer = packet;
    longer.push_back(std::byte{0});
    EXPECT_ERROR(decode(longer), Errc::corrupt_descriptor, "behind the end");
  };
  refuses(encode(Question(Hello{1, "a*"})), decode_question);
  refuses(encode(Question(ListNames{7, "*", "b"})), decode_question);
  refuses(encode(Question(ListGuests{7, 1, 1})), decode_question);
  refuses(encode(Answer(GotTensor{5, listing()})), decode_answer);
  refuses(encode(Answer(Names{5, false, {listing()}})), decode_answer);
  refuses(encode(Answer(Guests{5, false, {{3, 1000, true, false, {{"a", 1, 2, 3}}}}})), decode_answer);
}

TEST(NamesMessages, OfAnotherFormAreRefused) {
  const auto refuses = [](const Answer& answer, const char* text) {
    EXPECT_ERROR(decode_answer(encode(answer)), Errc::corrupt_descriptor, text);
  };
  EXPECT_ERROR(decode_question(packet_of({9, 0, 0, 0})), Errc::corrupt_descriptor, "type 9");
  EXPECT_ERROR(decode_answer(packet_of({1, 0, 0, 0})), Errc::corrupt_descriptor, "type 1");
  EXPECT_ERROR(decode_question(encode(Question(GetTensor{0, "a"}))), Errc::corrupt_descriptor, "request 0");
  EXPECT_ERROR(decode_question(encode(Question(GetTensor{1, "a\033[2J"}))), Errc::corrupt_descriptor, "control");
  EXPECT_ERROR(decode_question(encode(Question(GetTensor{1, std::string(256, 'x')}))), Errc::corrupt_descriptor,
               "256 bytes");
  EXPECT_ERROR(decode_question(encode(Question(GetTensor{1, "caf\xe9"}))), Errc::corrupt_descriptor, "UTF-8");
  refuses(Refused{1, Reason{0}, ""}, "reason 0");
  refuses(Refused{1, Reason{8}, ""}, "reason 8");
  refuses(Names{1, true, {}}, "a list");
  ipc::Listing bad = listing();
  bad.name = "a*";
  refuses(GotTensor{1, bad}, "no name");
  bad = listing();
  bad.where = "\033[2J";
  refuses(GotTensor{1, bad}, "control");
  bad = listing();
  bad.layout.shape[0] = -1;
  refuses(GotTensor{1, bad}, "negative");
  bad.layout.shape.assign(65, 1);
  bad.layout.strides.assign(65, 1);
  refuses(GotTensor{1, bad}, "65 dimensions");
  EXPECT_ERROR(decode_answer(packet_of({22, 0, 0, 0, 4, 0, 0, 0})), Errc::corrupt_descriptor, "type 4");
}

TEST(NamesMessages, PatternsAreNamesOrBeginnings) {
  EXPECT_TRUE(matches("ab", "ab"));
  EXPECT_FALSE(matches("ab", "a"));
  EXPECT_TRUE(matches("ab", "a*"));
  EXPECT_TRUE(matches("ab", "ab*"));
  EXPECT_TRUE(matches("ab", "*"));
  EXPECT_FALSE(matches("ab", "b*"));
  EXPECT_FALSE(matches("ab", ""));
}

}  // namespace
}  // namespace weir::test
