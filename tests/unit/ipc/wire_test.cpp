// SPDX-License-Identifier: Apache-2.0
// The descriptor format: golden bytes, every byte changed, every field out of range.

#include <cstdint>
#include <utility>
#include <vector>

#include "descriptor_fields.hpp"
#include "expect.hpp"
#include "ipc/wire.hpp"

namespace weir::test {
namespace {

// Made by an independent program from the specification; changes only with the version.
constexpr char golden[] =
    "776569722e6970630100000103000400"
    "02000000030000001011121314151617"
    "18191a1b1c1d1e1f2021222324252627"
    "28292a2b2c2d2e2f0807060504030201"
    "18171615141312110000200000000000"
    "00110000000000003930000000000000"
    "000100000000000076756c6b616e0000"
    "00000000000000006c6c766d70697065"
    "2032322e330000000000000000000000"
    "00000000000000000000000000000000"
    "00000000000000000000000000000000"
    "00000000000000000000000000000000"
    "00000000000000000000000000000000"
    "00000000000000000000000000000000"
    "00000000000000000000000000000000"
    "0000000000000000a4080a10f6594e55";

detail::WireDescriptor sample() {
  detail::WireDescriptor d;
  d.handle = spi::HandleKind::vulkan_opaque_fd;
  d.kind = MemoryKind::device;
  d.read_only = true;
  d.has_ready = true;
  for (std::uint8_t i = 0; i < 16; ++i) {
    d.device.bytes[i] = static_cast<std::uint8_t>(0x10 + i);
    d.boot.bytes[i] = static_cast<std::uint8_t>(0x20 + i);
  }
  d.segment = {0x0102030405060708, 0x1112131415161718};
  d.segment_size = 0x200000;
  d.offset = 0x1100;
  d.size = 12345;
  d.alignment = 256;
  d.backend = "vulkan";
  d.driver = "llvmpipe 22.3";
  return d;
}

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4U];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15U];
  }
  return text;
}

TEST(Wire, GoldenBytes) { EXPECT_EQ(hexadecimal(detail::encode(sample())), golden); }

// A lease changes these bytes and no others.
TEST(Wire, GoldenBytesWithALease) {
  auto d = sample();
  d.has_lease = true;
  std::string expected = golden;
  expected.replace(32, 32, "03000000070000001011121314151617");
  expected.replace(480, 32, "00000000000000007593789440f0e789");
  EXPECT_EQ(hexadecimal(detail::encode(d)), expected);
  const auto back = detail::decode(detail::encode(d));
  EXPECT_TRUE(back.has_lease);
  EXPECT_EQ(back.fd_count(), 3U);
}

detail::WireDescriptor in_parts(std::vector<std::uint64_t> parts) {
  auto d = sample();
  d.segment_size = 0;
  for (const auto part : parts) d.segment_size += part;
  d.parts = std::move(parts);
  return d;
}

// Memory in several parts has another version, and their sizes behind the rest.
TEST(Wire, GoldenBytesOfSeveralParts) {
  std::string expected = golden;
  expected.replace(16, 8, "02001001");
  expected.replace(32, 8, "03000000");
  expected.replace(480, 32, "0000000000000000baac44af513e5cd6");
  expected += "00000800000000000000180000000000";
  EXPECT_EQ(hexadecimal(detail::encode(in_parts({0x80000, 0x180000}))), expected);
}

TEST(Wire, PartsComeBack) {
  for (const std::size_t count : {std::size_t{2}, std::size_t{3}, detail::most_wire_parts}) {
    std::vector<std::uint64_t> parts(count);
    for (std::size_t i = 0; i < count; ++i) parts[i] = 0x10000 * (i + 1);
    const auto bytes = detail::encode(in_parts(parts));
    EXPECT_EQ(bytes.size(), detail::wire_size + 8 * count);
    EXPECT_EQ(detail::files_in(bytes.size()), count);
    EXPECT_EQ(detail::whole_size(std::span(bytes).first(detail::wire_size)), bytes.size());
    const auto back = detail::decode(bytes);
    EXPECT_EQ(back.parts, parts);
    EXPECT_EQ(back.memory_files(), count);
    EXPECT_EQ(back.fd_count(), count + 1);
  }
  EXPECT_LE(in_parts(std::vector<std::uint64_t>(detail::most_wire_parts, 1 << 16)).fd_count() + 1, 253U)
      << "what goes in one message";
}

TEST(Wire, PartsThatAreNotTheSegmentAreRefused) {
  constexpr std::uint64_t whole = 0x200000;
  const auto refused = [](std::vector<std::uint64_t> parts, const char* why) {
    auto d = sample();
    d.segment_size = whole;
    d.parts = std::move(parts);
    EXPECT_ERROR(detail::decode(detail::encode(d)), Errc::corrupt_descriptor, why);
  };
  refused({whole, 0}, "part of 0 bytes");
  refused({0, whole}, "part of 0 bytes");
  refused({whole / 2, whole / 2 - 1}, "parts of a segment");
  refused({whole / 2, whole / 2 + 1}, "part of");
  refused({whole / 2, ~std::uint64_t{0} - whole / 2 + 1}, "part of");
  refused({whole}, "size field is 264 in version 2");
  refused(std::vector<std::uint64_t>(detail::most_wire_parts + 1, 1), "size field is 2264 in version 2");
}

TEST(Wire, EveryChangedByteOfPartsIsSeen) {
  const auto bytes = detail::encode(in_parts({0x80000, 0x180000}));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      auto spoilt = bytes;
      spoilt[at] ^= std::byte(change);
      EXPECT_THROW((void)detail::decode(spoilt), Error) << "byte " << at << " ^ " << change;
    }
  }
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW((void)detail::decode(std::span(bytes).first(size)), Error) << size;
}

TEST(Wire, RoundTrip) {
  const auto d = detail::decode(detail::encode(sample()));
  EXPECT_EQ(d.handle, spi::HandleKind::vulkan_opaque_fd);
  EXPECT_EQ(d.kind, MemoryKind::device);
  EXPECT_TRUE(d.read_only);
  EXPECT_TRUE(d.has_ready);
  EXPECT_FALSE(d.has_lease);
  EXPECT_EQ(d.fd_count(), 2U);
  EXPECT_EQ(d.device, sample().device);
  EXPECT_EQ(d.boot, sample().boot);
  EXPECT_EQ(d.segment, sample().segment);
  EXPECT_EQ(d.segment_size, 0x200000U);
  EXPECT_EQ(d.offset, 0x1100U);
  EXPECT_EQ(d.size, 12345U);
  EXPECT_EQ(d.alignment, 256U);
  EXPECT_EQ(d.backend, "vulkan");
  EXPECT_EQ(d.driver, "llvmpipe 22.3");
}

TEST(Wire, FieldsCoverEveryByteOnce) {
  std::size_t at = 0;
  for (const wire::Field& field : wire::all) {
    EXPECT_EQ(field.offset, at) << field.name;
    at += field.bytes;
  }
  EXPECT_EQ(at, detail::wire_size);
}

TEST(Wire, EveryChangedByteIsSeen) {
  const auto bytes = detail::encode(sample());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      auto spoilt = bytes;
      spoilt[at] ^= std::byte(change);
      EXPECT_THROW((void)detail::decode(spoilt), Error) << "byte " << at << " ^ " << change;
    }
  }
}

TEST(Wire, EveryLengthButOneIsRefused) {
  const auto bytes = detail::encode(sample());
  std::vector<std::byte> longer(bytes.begin(), bytes.end());
  longer.push_back({});
  EXPECT_ERROR(detail::decode(longer), Errc::corrupt_descriptor, "257 bytes");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_ERROR(detail::decode(std::span(bytes).first(size)), Errc::corrupt_descriptor,
                 std::to_string(size) + " bytes");
  }
}

TEST(Wire, FieldsOutOfRangeAreNamedAlsoWithAFittingChecksum) {
  struct Case {
    const wire::Field& field;
    std::uint64_t value;
    Errc condition = Errc::corrupt_descriptor;
  };
  constexpr std::uint64_t max = UINT64_MAX;
  const Case cases[] = {
      {wire::magic, 0},
      {wire::version, 0, Errc::incompatible},
      {wire::version, 2},
      {wire::version, 3, Errc::incompatible},
      {wire::size, 0},
      {wire::size, 255},
      {wire::handle, 0},
      {wire::handle, 4},
      {wire::handle, 0xffff},
      {wire::kind, 11},
      {wire::kind, 0xffff},
      {wire::fd_count, 0},
      {wire::fd_count, 1},
      {wire::fd_count, 3},
      {wire::fd_count, 0xffffffff},
      {wire::flags, 11},
      {wire::flags, 0x80000003},
      {wire::segment_size, 0},
      {wire::segment_size, max},
      {wire::segment_size, 0x1100 + 12344},
      {wire::offset, 0x200000},
      {wire::offset, 0x200000 - 12344},
      {wire::offset, max},
      {wire::bytes, 0},
      {wire::bytes, 0x200000},
      {wire::bytes, max},
      {wire::bytes, max - 0x1100 + 1},
      {wire::alignment, 0},
      {wire::alignment, 3},
      {wire::alignment, max},
      {wire::alignment, 512},
      {wire::reserved, 1},
  };
  const auto bytes = detail::encode(sample());
  for (const Case& c : cases) {
    EXPECT_ERROR(detail::decode(wire::with(bytes, c.field, c.value)), c.condition, c.field.name) << c.value;
  }
  EXPECT_ERROR(detail::decode(wire::flipped(bytes, wire::checksum.offset, std::byte{1})), Errc::corrupt_descriptor,
               "checksum");
}

TEST(Wire, SegmentIdsAreNotZero) {
  auto d = sample();
  d.segment = {};
  EXPECT_ERROR(detail::decode(detail::encode(d)), Errc::corrupt_descriptor, "segment id");
}

TEST(Wire, EveryReservedByteIsChecked) {
  const auto bytes = detail::encode(sample());
  for (std::size_t i = 0; i < wire::reserved.bytes; ++i) {
    EXPECT_ERROR(detail::decode(wire::flipped(bytes, wire::reserved.offset + i, std::byte{0x40})),
                 Errc::corrupt_descriptor, "reserved");
  }
}

TEST(Wire, TextsEndAndAreFollowedByZeros) {
  const auto bytes = detail::encode(sample());
  for (const wire::Field& field : {wire::backend, wire::driver}) {
    EXPECT_ERROR(detail::decode(wire::flipped(bytes, field.offset + field.bytes - 2, std::byte{'x'})),
                 Errc::corrupt_descriptor, field.name);
    Bytes full(bytes.begin(), bytes.end());
    std::fill_n(full.begin() + static_cast<std::ptrdiff_t>(field.offset), field.bytes, std::byte{'x'});
    EXPECT_ERROR(detail::decode(full), Errc::corrupt_descriptor, field.name);
  }
}

TEST(Wire, LongNamesAreCut) {
  auto d = sample();
  d.driver.assign(500, 'd');
  const auto back = detail::decode(detail::encode(d));
  EXPECT_EQ(back.driver, detail::wire_driver(d.driver));
  EXPECT_EQ(back.driver.size(), 63U);
}

}  // namespace
}  // namespace weir::test
