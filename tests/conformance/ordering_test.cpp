// SPDX-License-Identifier: Apache-2.0
// Work happens in stream order and not earlier: whatever overtakes a held stream shows as wrong bytes.

#include <cstdint>

#include "fixture.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

class Ordering : public OnMemory {};
WEIR_FOR_EACH_MEMORY(Ordering);

TEST_P(Ordering, HeldWorkHasNotHappened) {
  Buffer buffer = filled(repeat(1000, 0x11));
  const Stream other(device());
  Gate gate;
  gate.hold(stream);
  buffer.fill(std::uint8_t{0x22}, stream);
  const Event event = stream.record();
  EXPECT_FALSE(event.done());
  EXPECT_FALSE(stream.done());
  EXPECT_EQ(event.wait(5ms), WaitStatus::timeout);
  Bytes early(1000);
  buffer.copy_to(early, other);  // unordered on purpose: nothing writes meanwhile
  other.synchronize();
  EXPECT_BYTES(early, repeat(1000, 0x11));
  gate.open();
  event.wait();
  EXPECT_TRUE(event.done());
  EXPECT_BYTES(read(buffer, stream), repeat(1000, 0x22));
}

TEST_P(Ordering, AnotherStreamWaitsForAnEvent) {
  const Stream other(device());
  Buffer source = filled(repeat(5000, 0x11));
  Buffer target = resource->allocate(5000, other);
  Gate gate;
  gate.hold(stream);
  write(source, pattern(5000, 1), stream);
  other.wait(stream.record());
  target.copy_from(source, other);
  EXPECT_FALSE(other.done());
  gate.open();
  EXPECT_BYTES(read(target, other), pattern(5000, 1));
}

TEST_P(Ordering, EventCoversNothingLater) {
  const Stream other(device());
  Buffer source = filled(repeat(100, 0x11));
  Gate gate;
  const Event before = stream.record();
  gate.hold(stream);
  source.fill(std::uint8_t{0x22}, stream);
  other.wait(before);
  EXPECT_BYTES(read(source, other), repeat(100, 0x11));
  EXPECT_TRUE(before.done());
  gate.open();
  stream.synchronize();
}

TEST_P(Ordering, StreamsOfEveryDeviceWaitForThisOne) {
  for (const Device& theirs : devices()) {
    const Stream other(theirs);
    Buffer source = filled(repeat(3000, 0x11));
    Gate gate;
    gate.hold(stream);
    write(source, pattern(3000, 2), stream);
    other.wait(stream.record());
    Bytes seen(3000);
    source.copy_to(seen, other);
    EXPECT_FALSE(other.done()) << theirs.id();
    gate.open();
    other.synchronize();
    EXPECT_BYTES(seen, pattern(3000, 2)) << theirs.id();
  }
}

TEST_P(Ordering, ThisStreamWaitsForStreamsOfEveryDevice) {
  for (const Device& theirs : devices()) {
    const Stream other(theirs);
    Buffer source = filled(repeat(3000, 0x11));
    Gate gate;
    gate.hold(other);
    write(source, pattern(3000, 3), other);
    stream.wait(other.record());
    Buffer copy = source.copy_to(stream);
    EXPECT_FALSE(stream.done()) << theirs.id();
    gate.open();
    EXPECT_BYTES(read(copy, stream), pattern(3000, 3)) << theirs.id();
  }
}

TEST_P(Ordering, ChainThroughManyStreams) {
  std::vector<Stream> chain;
  for (int i = 0; i < 3; ++i) {
    chain.emplace_back(device());
    chain.emplace_back(host_device());
  }
  Buffer buffer = filled(repeat(64, 0));
  Gate gate;
  gate.hold(chain.front());
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (i > 0) chain[i].wait(chain[i - 1].record());
    buffer.fill(static_cast<std::uint8_t>(i + 1), i, 64 - 2 * i, chain[i]);
  }
  EXPECT_FALSE(chain.back().done());
  gate.open();
  Bytes model(64);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    std::fill_n(model.begin() + static_cast<std::ptrdiff_t>(i), 64 - 2 * i, std::byte(i + 1));
  }
  EXPECT_BYTES(read(buffer, chain.back()), model);
}

TEST_P(Ordering, WriteAfterRead) {
  const Stream other(device());
  Buffer buffer = filled(pattern(2000, 4));
  Buffer target = resource->allocate(2000, other);
  Gate gate;
  gate.hold(other);
  target.copy_from(buffer, other);
  stream.wait(other.record());
  buffer.fill(std::uint8_t{0}, stream);
  gate.open();
  stream.synchronize();
  EXPECT_BYTES(read(target, other), pattern(2000, 4));
  EXPECT_BYTES(read(buffer, stream), repeat(2000, 0));
}

class OrderingOnTheHost : public OnMemory {};
WEIR_FOR_EACH_HOST_ACCESSIBLE(OrderingOnTheHost);

TEST_P(OrderingOnTheHost, CallsRunBetweenOperations) {
  Buffer buffer = filled(repeat(100, 0x11));
  std::byte seen{};
  Gate gate;
  gate.hold(stream);
  buffer.fill(std::uint8_t{0x22}, stream);
  stream.call([&] {
    before_host_read(buffer);
    seen = buffer.host_data()[50];
  });
  buffer.fill(std::uint8_t{0x33}, stream);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(seen, std::byte{0x22});
  before_host_read(buffer);
  EXPECT_EQ(buffer.host_data()[50], std::byte{0x33});
}

TEST_P(Ordering, ReadersOnManyStreamsThenOneWriter) {
  Buffer buffer = filled(pattern(4000, 5));
  std::vector<Stream> readers;
  std::vector<Bytes> seen(4, Bytes(4000));
  Gate gate;
  for (Bytes& bytes : seen) {
    const Stream& reader = readers.emplace_back(device());
    gate.hold(reader);
    buffer.copy_to(bytes, reader);
    stream.wait(reader.record());
  }
  buffer.fill(std::uint8_t{0xff}, stream);
  EXPECT_FALSE(stream.done());
  gate.open();
  stream.synchronize();
  for (const Bytes& bytes : seen) EXPECT_BYTES(bytes, pattern(4000, 5));
}

}  // namespace
}  // namespace weir::test
