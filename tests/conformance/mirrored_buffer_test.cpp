// SPDX-License-Identifier: Apache-2.0
// Buffers with a copy for each of several streams: of one memory, and of all devices together.

#include "weir/mirrored_buffer.hpp"

#include <cstdint>

#include "fixture.hpp"
#include "weir/adaptors/limiting.hpp"

namespace weir::test {
namespace {

constexpr std::size_t size = 1000;

/// All copies of a mirror, one behind the other.
Bytes all_of(const MirroredBuffer& mirror) {
  Bytes bytes(mirror.size() * mirror.copies());
  mirror.read_all(bytes);
  mirror.synchronize();
  return bytes;
}

class MirroredBuffers : public OnMemory {
 protected:
  [[nodiscard]] MirroredBuffer made() const {
    const Stream other(device());
    return {size, {stream, other, stream}, std::vector{resource, resource, resource}};
  }
};
WEIR_FOR_EACH_MEMORY(MirroredBuffers);

TEST_P(MirroredBuffers, WriteAllOrOneAndReadAllOrOne) {
  MirroredBuffer mirror = made();
  EXPECT_EQ(mirror.copies(), 3U);
  EXPECT_EQ(mirror.size(), size);
  mirror.write(pattern(size, 1));
  Bytes expected;
  for (int i = 0; i < 3; ++i) std::ranges::copy(pattern(size, 1), std::back_inserter(expected));
  EXPECT_BYTES(all_of(mirror), expected);
  mirror.write(pattern(size, 2), 1);
  std::ranges::copy(pattern(size, 2), expected.begin() + size);
  EXPECT_BYTES(all_of(mirror), expected);
  Bytes one(size);
  mirror.read(one, 1);
  mirror.stream(1).synchronize();
  EXPECT_BYTES(one, pattern(size, 2));
}

TEST_P(MirroredBuffers, CopiesAreBuffersOfTheirOwn) {
  MirroredBuffer mirror = made();
  mirror.write(repeat(size, 1));
  mirror.copy(2).fill(std::byte{3}, mirror.stream(2));
  Bytes expected = repeat(2 * size, 1);
  expected.resize(3 * size, std::byte{3});
  EXPECT_BYTES(all_of(mirror), expected);
  EXPECT_EQ(resource->stats().live_buffers, 3U);
  mirror.close();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(MirroredBuffers, AreMadeEqualFromOneCopy) {
  MirroredBuffer mirror = made();
  mirror.write(repeat(size, 1));
  mirror.synchronize();
  Gate gate;
  gate.hold(mirror.stream(1));
  mirror.copy(1).fill(std::byte{2}, mirror.stream(1));
  mirror.broadcast(1);
  mirror.copy(1).fill(std::byte{4}, mirror.stream(1));
  gate.open();
  Bytes expected = repeat(3 * size, 2);
  std::fill_n(expected.begin() + size, size, std::byte{4});
  EXPECT_BYTES(all_of(mirror), expected);
}

TEST_P(MirroredBuffers, RefuseWhatDoesNotFit) {
  MirroredBuffer mirror = made();
  EXPECT_ERROR(mirror.write(pattern(size + 1, 1)), Errc::invalid_argument,
               "MirroredBuffer::write: 1001 bytes were given, 1000 are needed");
  EXPECT_ERROR(mirror.write(pattern(size, 1), 3), Errc::invalid_argument,
               "MirroredBuffer::write: there is no copy 3; there are 3");
  Bytes bytes(size);
  EXPECT_ERROR(mirror.read_all(bytes), Errc::invalid_argument, "1000 bytes were given, 3000 are needed");
  EXPECT_ERROR(mirror.read(bytes, 7), Errc::invalid_argument, "no copy 7");
  EXPECT_ERROR(mirror.broadcast(3), Errc::invalid_argument, "no copy 3");
  EXPECT_ERROR(mirror.copy(3), Errc::invalid_argument, "no copy 3");
  EXPECT_ERROR(mirror.stream(3), Errc::invalid_argument, "no copy 3");
  EXPECT_ERROR((MirroredBuffer(size, {})), Errc::invalid_argument, "there is no stream");
  EXPECT_ERROR((MirroredBuffer(size, {stream, stream}, std::vector{resource})), Errc::invalid_argument,
               "1 resources for 2 streams");
  EXPECT_ERROR((MirroredBuffer(size, {stream, stream}, std::vector<ResourcePtr>{resource, nullptr})),
               Errc::invalid_argument, "a resource is null");
  mirror.close();
  EXPECT_ERROR(mirror.write(pattern(size, 1)), Errc::closed, "MirroredBuffer::write: the buffer is closed");
  EXPECT_ERROR(mirror.write(pattern(size, 1), 0), Errc::closed, "closed");
  EXPECT_ERROR(mirror.any(), Errc::closed, "closed");
}

TEST_P(MirroredBuffers, OfMovedFromStreamsAreRefused) {
  Stream gone = stream;
  const Stream taken = std::move(gone);
  const std::vector<Stream> streams{stream, gone};  // NOLINT(bugprone-use-after-move): that is the subject
  EXPECT_ERROR(MirroredBuffer(size, streams), Errc::closed, "Stream");
  EXPECT_ERROR(MirroredBuffer(size, streams, std::vector{resource, resource}), Errc::closed, "Stream");
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(MirroredBuffers, ThatAreClosedOrMovedFromSaySoFirst) {
  const auto expect_closed = [](MirroredBuffer& mirror) {
    Bytes wrong(1);
    EXPECT_ERROR(mirror.write(wrong), Errc::closed, "MirroredBuffer::write: the buffer is closed");
    EXPECT_ERROR(mirror.write(wrong, 7), Errc::closed, "MirroredBuffer::write: the buffer is closed");
    EXPECT_ERROR(mirror.read(wrong, 7), Errc::closed, "MirroredBuffer::read: the buffer is closed");
    EXPECT_ERROR(mirror.read_all(wrong), Errc::closed, "MirroredBuffer::read_all: the buffer is closed");
    EXPECT_ERROR(mirror.broadcast(7), Errc::closed, "MirroredBuffer::broadcast: the buffer is closed");
    EXPECT_ERROR(mirror.any(), Errc::closed, "MirroredBuffer::any: the buffer is closed");
    EXPECT_ERROR(mirror.synchronize(), Errc::closed, "MirroredBuffer::synchronize: the buffer is closed");
  };
  MirroredBuffer mirror = made();
  MirroredBuffer taken = std::move(mirror);
  // NOLINTBEGIN(bugprone-use-after-move): that is the subject
  expect_closed(mirror);
  EXPECT_ERROR(mirror.stream(0), Errc::closed, "MirroredBuffer::stream: the buffer is closed");
  EXPECT_ERROR(mirror.copy(0), Errc::closed, "MirroredBuffer::copy: the buffer is closed");
  EXPECT_EQ(mirror.copies(), 0U);
  mirror.close();
  // NOLINTEND(bugprone-use-after-move)
  taken.close();
  expect_closed(taken);
  EXPECT_EQ(taken.stream(0), stream);
  EXPECT_TRUE(taken.copy(0).is_closed());
  EXPECT_ERROR(taken.copy(3), Errc::invalid_argument, "no copy 3");
}

TEST_P(MirroredBuffers, OneThatClosedItsCopyIsNotWrittenAtAll) {
  MirroredBuffer mirror = made();
  mirror.write(repeat(size, 1));
  mirror.copy(2).close();
  EXPECT_ERROR(mirror.write(repeat(size, 2)), Errc::closed, "closed");
  EXPECT_ERROR(mirror.broadcast(0), Errc::closed, "closed");
  EXPECT_ERROR(mirror.write({}, 2), Errc::closed, "MirroredBuffer::write: the buffer is closed");
  Bytes one(size);
  mirror.read(one, 0);
  mirror.synchronize();
  EXPECT_BYTES(one, repeat(size, 1));
}

TEST_P(MirroredBuffers, OfNothingDoNothing) {
  MirroredBuffer mirror(0, {stream, stream}, std::vector{resource, resource});
  mirror.write({});
  mirror.read_all({});
  mirror.broadcast(1);
  mirror.synchronize();
}

TEST_P(MirroredBuffers, FreeCopiesComeFirst) {
  Gate gate;
  const Stream busy(host_device());
  gate.hold(busy);
  const Stream idle(host_device());
  const ResourcePtr plain = make_resource(host_device());
  MirroredBuffer mirror(size, {busy, idle, busy}, std::vector{plain, plain, plain});
  EXPECT_EQ(mirror.any(), 1U);
  EXPECT_EQ(mirror.any(), 1U);
  gate.open();
  mirror.synchronize();
  EXPECT_EQ(mirror.any(), 2U);
  EXPECT_EQ(mirror.any(), 0U) << "all are free, so each has its turn";
  EXPECT_EQ(mirror.any(), 1U);
}

TEST_P(MirroredBuffers, BusyCopiesHaveTheirTurns) {
  Gate gate;
  const Stream busy(host_device());
  gate.hold(busy);
  const ResourcePtr plain = make_resource(host_device());
  MirroredBuffer mirror(size, {busy, busy, busy}, std::vector{plain, plain, plain});
  for (const std::size_t turn : {0, 1, 2, 0}) EXPECT_EQ(mirror.any(), turn);
}

TEST_P(MirroredBuffers, NoCopyStaysWhereOneIsMissing) {
  const ResourcePtr limited = make_limiting(resource, size);
  EXPECT_THROW((MirroredBuffer(size, {stream, stream}, std::vector{limited, limited})), OutOfMemory);
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST(MirroredBufferOnAllDevices, HoldsOneCopyEach) {
  std::vector<Stream> streams;
  for (const Device& device : devices()) streams.emplace_back(device);
  MirroredBuffer mirror(size, streams);
  EXPECT_EQ(mirror.copies(), streams.size());
  mirror.write(pattern(size, 1));
  for (std::size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(mirror.copy(i).device(), streams[i].device());
    EXPECT_EQ(mirror.copy(i).kind(), streams[i].device().default_kind());
  }
  mirror.copy(0).fill(std::byte{9}, streams[0]);
  mirror.broadcast(0);
  EXPECT_BYTES(all_of(mirror), repeat(size * streams.size(), 9));
}

}  // namespace
}  // namespace weir::test
