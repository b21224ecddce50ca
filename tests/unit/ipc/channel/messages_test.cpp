// SPDX-License-Identifier: Apache-2.0
// The packets of a channel: pinned bytes, every message there and back, every packet cut short and every byte changed.

#include "ipc/channel/messages.hpp"

#include <array>
#include <cstdint>
#include <string>

#include "bytes.hpp"
#include "expect.hpp"

namespace weir::test {
namespace {

using namespace detail::channel;
using detail::page_values;
using detail::page_words;
using detail::PagePoint;

std::array<std::byte, detail::wire_size> descriptor() {
  std::array<std::byte, detail::wire_size> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

// One of each, in the order in which docs/channel-protocol.md has them.
PacketWriter one_of_each() {
  PacketWriter packet;
  const auto named = descriptor();
  const Bytes payload = pattern(5, 1);
  const std::array<std::uint64_t, 3> released{1, 0x100000002, 0x300000004};
  std::span<const std::uint64_t> rest = released;
  EXPECT_TRUE(packet.add(Hello{1, 256}));
  EXPECT_TRUE(packet.add(Segment{7, named}));
  EXPECT_TRUE(packet.add(Page{}));
  EXPECT_TRUE(packet.add(Grant{0x500000006, 7, 4096, 1000, {511, page_values - 1}, payload}));
  EXPECT_TRUE(packet.add(rest));
  EXPECT_TRUE(rest.empty());
  EXPECT_TRUE(packet.add(Credit{64}));
  EXPECT_TRUE(packet.add(Retire{7}));
  EXPECT_TRUE(packet.add(Bye{}));
  return packet;
}

std::string hex(std::span<const std::byte> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += digits[std::to_integer<unsigned>(b) >> 4U];
    text += digits[std::to_integer<unsigned>(b) & 15U];
  }
  return text;
}

std::size_t count_messages(std::span<const std::byte> packet, std::size_t files) {
  PacketReader reader(packet, files);
  std::size_t count = 0;
  while (reader.next()) ++count;
  return count;
}

TEST(ChannelMessages, HaveTheseBytes) {
  PacketWriter packet;
  const std::array<std::byte, 2> payload{std::byte{0xaa}, std::byte{0xbb}};
  const std::array<std::uint64_t, 1> released{0x0102030405060708};
  std::span<const std::uint64_t> rest = released;
  ASSERT_TRUE(packet.add(Hello{1, 256}));
  ASSERT_TRUE(packet.add(Page{}));
  ASSERT_TRUE(packet.add(
      Grant{0x1112131415161718, 0x21222324, 0x3132333435363738, 0x41, {0x0142, 0x5152535455565758}, payload}));
  ASSERT_TRUE(packet.add(rest));
  ASSERT_TRUE(packet.add(Credit{3}));
  ASSERT_TRUE(packet.add(Retire{4}));
  ASSERT_TRUE(packet.add(Bye{}));
  EXPECT_EQ(hex(packet.bytes()),
            "01000200010000000001000000000000"  // hello, 2 units
            "0300010000000000"                  // page
            "04000700"
            "24232221"
            "1817161514131211"  // grant: segment, number,
            "3837363534333231"
            "4100000000000000"  // offset, size,
            "42010000"
            "0200"
            "0000"
            "5857565554535251"  // word, payload size, reserved, value
            "aabb000000000000"  // payload
            "05000200"
            "01000000"
            "0807060504030201"  // releases
            "06000100"
            "03000000"  // credit
            "07000100"
            "04000000"  // retire
            "08000100"
            "00000000");  // bye
  EXPECT_EQ(packet.files(), 1U);
}

TEST(ChannelMessages, ComeThroughAsTheyWere) {
  const PacketWriter packet = one_of_each();
  EXPECT_EQ(packet.files(), 2U);
  PacketReader reader(packet.bytes(), 2);
  const auto hello = std::get<Hello>(*reader.next());
  EXPECT_EQ(hello.version, 1U);
  EXPECT_EQ(hello.window, 256U);
  const auto segment = std::get<Segment>(*reader.next());
  EXPECT_EQ(segment.number, 7U);
  EXPECT_BYTES(segment.descriptor, descriptor());
  EXPECT_TRUE(std::holds_alternative<Page>(*reader.next()));
  const auto grant = std::get<Grant>(*reader.next());
  EXPECT_EQ(grant.number, 0x500000006U);
  EXPECT_EQ(grant.segment, 7U);
  EXPECT_EQ(grant.offset, 4096U);
  EXPECT_EQ(grant.size, 1000U);
  EXPECT_EQ(grant.ready, (PagePoint{511, page_values - 1}));
  EXPECT_BYTES(grant.payload, pattern(5, 1));
  const auto releases = std::get<Releases>(*reader.next());
  ASSERT_EQ(releases.size(), 3U);
  EXPECT_EQ(releases[0], 1U);
  EXPECT_EQ(releases[1], 0x100000002U);
  EXPECT_EQ(releases[2], 0x300000004U);
  EXPECT_EQ(std::get<Credit>(*reader.next()).buffers, 64U);
  EXPECT_EQ(std::get<Retire>(*reader.next()).segment, 7U);
  EXPECT_TRUE(std::holds_alternative<Bye>(*reader.next()));
  EXPECT_FALSE(reader.next());
}

// A segment of several parts has the sizes of these behind the rest, and as many files.
TEST(ChannelMessages, SegmentsHaveAFileForEachPart) {
  for (const std::size_t parts : {std::size_t{2}, detail::most_wire_parts}) {
    const Bytes named = pattern(detail::wire_size + parts * detail::wire_part_size, 3);
    PacketWriter packet;
    ASSERT_TRUE(packet.has_room(most_payload, parts));
    ASSERT_TRUE(packet.add(Segment{7, named}));
    EXPECT_EQ(packet.files(), parts);
    PacketReader reader(packet.bytes(), parts);
    const auto message = reader.next();
    const auto* const segment = std::get_if<Segment>(&*message);
    ASSERT_TRUE(segment);
    EXPECT_EQ(segment->files(), parts);
    EXPECT_BYTES(Bytes(segment->descriptor.begin(), segment->descriptor.end()), named);
    EXPECT_FALSE(reader.next());
    EXPECT_THROW((void)count_messages(packet.bytes(), parts - 1), Error);
    EXPECT_THROW((void)count_messages(packet.bytes(), parts + 1), Error);
    EXPECT_EQ(packet.has_room(0, most_files - parts), false) << "with a page";
    EXPECT_EQ(packet.has_room(0, most_files - parts - 1), true);
  }
  const Bytes larger = pattern(detail::most_wire_size + detail::wire_part_size, 3);
  PacketWriter packet;
  ASSERT_TRUE(packet.add(Segment{7, larger}));
  EXPECT_THROW((void)count_messages(packet.bytes(), packet.files()), Error);
}

TEST(ChannelMessages, StopAtThePacketsEnd) {
  PacketWriter packet;
  const Bytes payload = pattern(most_payload, 1);
  const auto named = descriptor();
  std::size_t grants = 0;
  while (packet.has_room(most_payload)) {
    ASSERT_TRUE(packet.add(Segment{1, named}));
    ASSERT_TRUE(packet.add(Page{}));
    ASSERT_TRUE(packet.add(Grant{1, 1, 0, 1, {1, 1}, payload}));
    ++grants;
  }
  EXPECT_GE(grants, 30U);
  EXPECT_LE(packet.files(), most_files);
  std::vector<std::uint64_t> many(10000, 1);
  std::span<const std::uint64_t> rest = many;
  while (packet.add(rest)) {
  }
  EXPECT_FALSE(rest.empty());
  EXPECT_LE(packet.bytes().size(), largest_packet);
  const std::size_t before = packet.bytes().size();
  EXPECT_FALSE(packet.add(Grant{1, 1, 0, 1, {1, 1}, payload}));
  EXPECT_EQ(packet.bytes().size(), before);
  (void)count_messages(packet.bytes(), packet.files());
}

TEST(ChannelMessages, NoCutPacketIsTakenForAWholeOne) {
  const PacketWriter packet = one_of_each();
  std::size_t whole = 0;
  for (std::size_t size = 0; size < packet.bytes().size(); ++size) {
    try {
      (void)count_messages(packet.bytes().first(size), 2);
      ++whole;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::corrupt_descriptor);
    }
  }
  EXPECT_EQ(whole, 5U);  // those that end behind a message, after both files had theirs
}

TEST(ChannelMessages, AChangedByteIsReadOrRefused) {
  const PacketWriter packet = one_of_each();
  Bytes bytes(packet.bytes().begin(), packet.bytes().end());
  std::size_t refused = 0;
  for (std::byte& changed : bytes) {
    for (const unsigned bit : {1U, 0x80U, 0xffU}) {
      const std::byte was = changed;
      changed ^= static_cast<std::byte>(bit);
      try {
        (void)count_messages(bytes, 2);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::corrupt_descriptor);
        ++refused;
      }
      changed = was;
    }
  }
  EXPECT_GT(refused, 100U);
}

TEST(ChannelMessages, APointIsOneThatAPageCanHold) {
  const auto read = [](PagePoint ready) {
    PacketWriter packet;
    EXPECT_TRUE(packet.add(Grant{1, 1, 0, 1, ready, {}}));
    return std::get<Grant>(*PacketReader(packet.bytes(), 0).next()).ready;
  };
  for (const PagePoint right : {PagePoint{}, PagePoint{0, 1}, PagePoint{page_words - 1, page_values - 1}})
    EXPECT_EQ(read(right), right);
  EXPECT_ERROR(read({page_words, 1}), Errc::corrupt_descriptor, "word 512 of a page");
  EXPECT_ERROR(read({~std::uint32_t{0}, 1}), Errc::corrupt_descriptor, "of a page");
  EXPECT_ERROR(read({1, 0}), Errc::corrupt_descriptor, "a word without a value");
  EXPECT_ERROR(read({0, page_values}), Errc::corrupt_descriptor, "no page can hold");
  EXPECT_ERROR(read({0, ~std::uint64_t{0}}), Errc::corrupt_descriptor, "no page can hold");
}

TEST(ChannelMessages, FilesAreNeitherTooManyNorTooFew) {
  const PacketWriter packet = one_of_each();
  EXPECT_EQ(count_messages(packet.bytes(), 2), 8U);
  EXPECT_ERROR(count_messages(packet.bytes(), 1), Errc::corrupt_descriptor, "file is missing");
  EXPECT_ERROR(count_messages(packet.bytes(), 3), Errc::corrupt_descriptor, "1 files");
}

}  // namespace
}  // namespace weir::test
