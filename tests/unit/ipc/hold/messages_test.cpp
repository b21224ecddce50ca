// SPDX-License-Identifier: Apache-2.0
// The bytes of messages between a holder and its clients, which docs/ipc.md pins.

#include "ipc/hold/messages.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "expect.hpp"
#include "ipc/hold/connection.hpp"
#include "ipc/hold/records.hpp"
#include "ipc/hold/session.hpp"

namespace weir::test {
namespace {

using namespace detail::hold;

std::string hex(Bytes bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    constexpr char digits[] = "0123456789abcdef";
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15U];
  }
  return text;
}

TEST(HoldMessages, HaveTheBytesThatTheDocumentSays) {
  EXPECT_EQ(hex(encode(Hello{1, Role::reader, "ab"})), "0100000001000000" "77656972686f6c64" "0200000002000000" "6162");
  EXPECT_EQ(hex(encode(Welcome{1})), "0200000001000000");
  EXPECT_EQ(hex(encode(Refused{Why::files, 300})), "03000000060000002c01000000000000");
  const std::array<std::uint32_t, 2> entries{7, Segments::fresh};
  const std::array<std::byte, detail::wire_size> descriptor{};
  const std::array<Bytes, 1> descriptors{descriptor};
  EXPECT_EQ(hex(encode_segments(entries, descriptors)), "040000000200000007000000ffffffff" + std::string(512, '0'));
  EXPECT_EQ(hex(encode(Commit{2, 3, true})), "06000000020000000300000001000000");
  EXPECT_EQ(hex(encode(Committed{9})), "07000000000000000900000000000000");
  EXPECT_EQ(hex(encode(Remove{})), "0800000000000000");
  EXPECT_EQ(hex(encode(Open{4, 5})), "09000000040000000500000000000000");
  EXPECT_EQ(hex(encode(Set{4, 5, 6, 7, true})), "0a00000004000000" "0500000000000000" "0600000007000000" "0100000000000000");
}

TEST(HoldMessages, TensorsHaveTheBytesThatTheDocumentSays) {
  RecordWriter writer;
  writer.add({"w", 2, 3, 4, Layout{f32, {5}, {-1}, 6}});
  const auto packets = writer.finish();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(hex(packets[0]), "0500000001000000"
                             "4000010001022000" "0200000001000000" "0300000000000000" "0400000000000000"
                             "0600000000000000" "0500000000000000" "ffffffffffffffff" "7700000000000000");
}

TEST(HoldMessages, RecordsComeBackAndPacketsKeepToTheirSize) {
  RecordWriter writer;
  constexpr int count = 1000;
  for (int i = 0; i < count; ++i) {
    const std::string name = std::string(static_cast<std::size_t>(i % 255 + 1), 'n') ;
    const std::vector<std::int64_t> shape(static_cast<std::size_t>(i % 65), i);
    writer.add({name, static_cast<std::uint32_t>(i), 1, 2, Layout{c128, shape, shape, 3}});
  }
  int next = 0;
  for (const Packet& packet : writer.finish()) {
    EXPECT_LE(packet.size(), largest_packet);
    const Message message = decode(packet);
    read_records(std::get<Tensors>(message), [&](Record&& record) {
      EXPECT_EQ(record.name.size(), static_cast<std::size_t>(next % 255 + 1));
      EXPECT_EQ(record.segment, static_cast<std::uint32_t>(next));
      EXPECT_EQ(record.layout.shape, std::vector<std::int64_t>(static_cast<std::size_t>(next % 65), next));
      EXPECT_EQ(record.layout.strides, record.layout.shape);
      EXPECT_EQ(record.layout.dtype, c128);
      ++next;
    });
  }
  EXPECT_EQ(next, count);
}

TEST(HoldMessages, PacketsThatAreTooShortOrTooLongAreRefused) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{7}, largest_packet + 1}) {
    EXPECT_ERROR((void)decode(Packet(size)), Errc::corrupt_descriptor,
                 "a packet of " + std::to_string(size) + " bytes");
  }
}

TEST(HoldMessages, TensorsHaveAsManyBytesAsTheyNeed) {
  RecordWriter writer;
  Record smallest;
  smallest.name = "a";
  writer.add(smallest);
  const auto packets = writer.finish();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(std::get<Tensors>(decode(packets.front())).count, 1U) << "the smallest there is";
  Packet claims = packets.front();
  claims[4] = std::byte{2};
  EXPECT_ERROR(decode(claims), Errc::corrupt_descriptor, "2 tensors in a packet of 56 bytes");
  claims.resize(8);
  EXPECT_ERROR(decode(claims), Errc::corrupt_descriptor, "2 tensors in a packet of 8 bytes");
}

TEST(HoldMessages, APacketOfSegmentsHasRoomForSixtyFourFiles) {
  std::size_t files = 0;
  while (has_room(files, files)) ++files;
  EXPECT_EQ(files, most_files);
  std::size_t known = 0;
  while (has_room(known, 0)) ++known;
  EXPECT_GT(known, 8000U);
  EXPECT_LE(8 + 4 * known, largest_packet);
}

// The set is refused for what the process lacks, not for a limit that nobody reached.
TEST(HoldMessages, FilesThatAreLostAreNoLimit) {
  using File = std::shared_ptr<int>;
  Store<File> store(Limits{1, 100, 100000, 100});
  Session<File> session(store);
  Packet packet;
  std::vector<const File*> files;
  session.receive(encode(Hello{protocol_version, Role::writer, "a"}), {}, false);
  session.sent();
  const std::uint32_t fresh[] = {Segments::fresh};
  const Packet descriptor(detail::wire_size);
  const Bytes descriptors[] = {descriptor};
  session.receive(encode_segments(fresh, descriptors), {std::make_shared<int>(0)}, false);
  session.receive(encode_segments(fresh, descriptors), {}, true);
  session.receive(encode(Commit{0, 2, false}), {}, false);
  session.compose(packet, files);
  const Refused answer = std::get<Refused>(decode(packet));
  EXPECT_EQ(answer.why, Why::no_more_files);
  EXPECT_EQ(answer.limit, 1U);
  EXPECT_ERROR(throw_refusal(answer), Errc::out_of_memory, "may open no more files; it has 1 of memory");
}

}  // namespace
}  // namespace weir::test
