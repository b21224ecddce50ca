// SPDX-License-Identifier: Apache-2.0
// Host bytes in and out: when they are read, when they are written, where they may lie.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#include "fixture.hpp"

namespace weir::test {
namespace {

class HostSpans : public OnMemory {};
WEIR_FOR_EACH_MEMORY(HostSpans);

TEST_P(HostSpans, OffsetsAndOddSizes) {
  Bytes model = pattern(1000, 1);
  Buffer buffer = filled(model);
  for (const std::size_t offset : {0U, 1U, 3U, 500U, 997U}) {
    const Bytes piece = pattern(3, static_cast<std::uint32_t>(offset));
    buffer.copy_from(piece, stream, offset);
    std::copy(piece.begin(), piece.end(), model.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  EXPECT_BYTES(read(buffer, stream), model);
  Bytes part(501);
  buffer.copy_to(part, stream, 333);
  stream.synchronize();
  EXPECT_BYTES(part, std::span(model).subspan(333, 501));
}

TEST_P(HostSpans, SourceIsReadBeforeTheCallReturns) {
  Buffer small = resource->allocate(100, stream);
  Buffer large = resource->allocate(300001, stream);
  Gate gate;
  gate.hold(stream);
  Bytes bytes = pattern(300001, 2);
  small.copy_from(std::span(bytes).first(100), stream);
  large.copy_from(bytes, stream);
  std::fill(bytes.begin(), bytes.end(), std::byte{0xdd});
  bytes.clear();
  bytes.shrink_to_fit();
  gate.open();
  EXPECT_BYTES(read(small, stream), part(pattern(300001, 2), 0, 100));
  EXPECT_BYTES(read(large, stream), pattern(300001, 2));
}

TEST_P(HostSpans, BufferIsWrittenInStreamOrder) {
  Buffer buffer = filled(pattern(1000, 3));
  Gate gate;
  gate.hold(stream);
  const Buffer earlier = buffer.copy_to(stream);
  buffer.copy_from(pattern(1000, 4), stream);
  const Buffer later = buffer.copy_to(stream);
  EXPECT_FALSE(stream.done());
  gate.open();
  EXPECT_BYTES(read(earlier, stream), pattern(1000, 3));
  EXPECT_BYTES(read(later, stream), pattern(1000, 4));
}

TEST_P(HostSpans, TargetIsWrittenInStreamOrder) {
  Buffer buffer = filled(pattern(1000, 3));
  Bytes bytes = repeat(1000, 0x11);
  Gate gate;
  gate.hold(stream);
  buffer.copy_to(bytes, stream);
  buffer.fill(std::uint8_t{0}, stream);
  EXPECT_EQ(stream.synchronize(std::chrono::milliseconds{5}), WaitStatus::timeout);
  EXPECT_BYTES(bytes, repeat(1000, 0x11));
  gate.open();
  stream.synchronize();
  EXPECT_BYTES(bytes, pattern(1000, 3));
}

TEST_P(HostSpans, LargerThanAnyStagingPiece) {
  const Bytes expected = pattern((9U << 20U) + 13, 4);
  Buffer buffer = resource->allocate(expected.size(), stream);
  buffer.copy_from(expected, stream);
  EXPECT_BYTES(read(buffer, stream), expected);
}

// The stream gets to the first bytes while the last ones are still to be read.
TEST_P(HostSpans, OfTheBufferItself) {
  constexpr std::size_t whole = 13U << 20U, shift = 4U << 20U;
  for (const int milliseconds : {-1, 0, 2}) {
    Bytes expected = pattern(whole, 9);
    Buffer buffer = filled(expected);
    if (!buffer.host_data()) GTEST_SKIP() << "the host does not reach this memory";
    std::memmove(expected.data() + shift, expected.data(), whole - shift);
    if (milliseconds >= 0) stream.call([=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
    buffer.copy_from({buffer.host_data(), whole - shift}, stream, shift);
    EXPECT_BYTES(read(buffer, stream), expected) << milliseconds << " ms";
  }
}

TEST_P(HostSpans, MustFit) {
  Buffer buffer = filled(pattern(100, 5));
  Bytes bytes(101);
  EXPECT_ERROR(buffer.copy_from(bytes, stream), Errc::invalid_argument, "101");
  EXPECT_ERROR(buffer.copy_to(bytes, stream), Errc::invalid_argument, "101");
  EXPECT_ERROR(buffer.copy_from(std::span(bytes).first(10), stream, 91), Errc::invalid_argument, "91");
  EXPECT_ERROR(buffer.copy_to(std::span(bytes).first(10), stream, 91), Errc::invalid_argument, "91");
  EXPECT_ERROR(buffer.copy_to(std::span(bytes).first(1), stream, SIZE_MAX), Errc::invalid_argument, "");
  EXPECT_ERROR(buffer.copy_from(std::span(bytes).first(0), stream, 101), Errc::invalid_argument, "101");
  EXPECT_BYTES(read(buffer, stream), pattern(100, 5));
}

TEST_P(HostSpans, ManySmallWritesThenOneRead) {
  Buffer buffer = resource->allocate(2000, stream);
  const Bytes expected = pattern(2000, 6);
  for (std::size_t i = 0; i < 200; ++i) {
    buffer.copy_from(std::span(expected).subspan(i * 10, 10), stream, i * 10);
  }
  EXPECT_BYTES(read(buffer, stream), expected);
}

TEST_P(HostSpans, OnStreamsOfEveryDevice) {
  for (const Device& other : devices()) {
    const Stream theirs(other);
    Buffer buffer = filled(pattern(5001, 7));
    buffer.copy_from(part(pattern(5001, 8), 0, 5000), theirs, 1);
    Bytes bytes(5000);
    buffer.copy_to(bytes, theirs, 1);
    theirs.synchronize();
    EXPECT_BYTES(bytes, part(pattern(5001, 8), 0, 5000)) << other.id();
  }
}

}  // namespace
}  // namespace weir::test
