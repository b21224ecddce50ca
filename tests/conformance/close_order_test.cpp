// SPDX-License-Identifier: Apache-2.0
// Closing while work is pending: the memory goes back after the stream given, the allocation stream and every recorded
// use, whichever owner was the last. Memory that goes back too early is used up at once and shows as wrong bytes.

#include <array>
#include <atomic>
#include <cstdint>
#include <latch>

#include "fixture.hpp"
#include "threads.hpp"
#include "weir/dlpack.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

class CloseOrder : public OnMemory {
 protected:
  static constexpr std::size_t size = 8192;

  /// Use up whatever was given back too early.
  void scribble() const {
    const Stream fresh(device());
    for (int i = 0; i < 4; ++i) resource->allocate(size, fresh).fill(std::uint8_t{0xff}, fresh);
    fresh.synchronize();
  }
};
WEIR_FOR_EACH_MEMORY(CloseOrder);

TEST_P(CloseOrder, TheGivenStreamAndEveryRecordedUse) {
  const std::array<Stream, 3> streams{stream, Stream(device()), Stream(device())};
  std::array<Bytes, 3> seen{Bytes(size), Bytes(size), Bytes(size)};
  std::array<Gate, 3> gates;
  Buffer source = filled(pattern(size, 1));
  for (std::size_t i = 0; i < streams.size(); ++i) {
    gates[i].hold(streams[i]);
    source.copy_to(seen[i], streams[i]);
  }
  source.close(streams[1]);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    scribble();
    EXPECT_FALSE(streams[i].done());
    gates[i].open();
    streams[i].synchronize();
    EXPECT_BYTES(seen[i], pattern(size, 1)) << "stream " << i;
  }
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

TEST_P(CloseOrder, AStreamOfEveryDeviceCanBeGiven) {
  for (const Device& theirs : devices()) {
    const Stream other(theirs);
    Buffer source = filled(pattern(size, 2));
    Buffer share = source.share();
    Bytes seen(size);
    Gate gate;
    gate.hold(other);
    source.copy_to(seen, other);
    source.close(other);
    share.close(other);
    EXPECT_EQ(resource->stats().live_buffers, 0U) << theirs.id();
    scribble();
    gate.open();
    other.synchronize();
    EXPECT_BYTES(seen, pattern(size, 2)) << theirs.id();
  }
}

TEST_P(CloseOrder, OwnersThatCloseOnStreamsOfTheirOwn) {
  const Stream other(device());
  const Stream third(device());
  Buffer whole = filled(pattern(size, 3));
  Buffer share = whole.share();
  Buffer slice = whole.slice(100, 1000);
  Bytes seen(1000);
  Gate gate;
  gate.hold(third);
  slice.copy_to(seen, third);
  slice.close(third);  // its use stays on record for the others
  whole.close(stream);
  share.close(other);
  scribble();
  gate.open();
  third.synchronize();
  EXPECT_BYTES(seen, part(pattern(size, 3), 100, 1000));
}

TEST_P(CloseOrder, StreamsMayEndMeanwhile) {
  Bytes seen(size);
  Gate gate;
  Event end;
  {
    const Stream other(device());
    Buffer source = filled(pattern(size, 4));
    gate.hold(other);
    source.copy_to(seen, other);
    end = other.record();
    source.close(other);
  }
  scribble();
  EXPECT_FALSE(end.done());
  gate.open();
  end.wait();
  EXPECT_BYTES(seen, pattern(size, 4));
}

TEST_P(CloseOrder, EightOwnersAtOnce) {
  constexpr std::size_t count = 8;
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < count; ++i) streams.emplace_back(device());
  for (int round = 0; round < 10; ++round) {
    std::vector<Buffer> owners;
    owners.push_back(resource->allocate(64, stream));
    while (owners.size() < count) owners.push_back(owners.front().slice(owners.size(), 8));
    std::latch start(count);
    std::vector<Thread> threads;
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        i % 2 ? owners[i].close(streams[i]) : owners[i].close();
      });
    }
    for (Thread& thread : threads) thread.join();
    ASSERT_EQ(resource->stats().live_buffers, 0U);
  }
  EXPECT_EQ(resource->stats().allocations, 10U);
  stream.synchronize();
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

class CloseOrderOfTensors : public CloseOrder {};
WEIR_FOR_EACH_ADDRESSABLE(CloseOrderOfTensors);

TEST_P(CloseOrderOfTensors, WhatWasTakenBackInHoldsTheMemory) {
  const Stream other(device());
  Buffer source = filled(pattern(size, 5));
  Tensor tensor = from_dlpack(source.view(u8, {size}).to_dlpack(other).release(), other);
  Bytes seen(size);
  Gate gate;
  gate.hold(other);
  tensor.buffer().copy_to(seen, other);
  source.close();
  scribble();
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  tensor.buffer().close();
  scribble();
  EXPECT_EQ(resource->stats().live_buffers, 1U) << "the deleter runs after the pending copy";
  const ResourcePtr external =
      from_dlpack(filled(pattern(1, 1)).view(u8, {1}).to_dlpack(stream).release(), stream).buffer().memory_resource();
  gate.open();
  other.synchronize();
  external->trim(0);
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  EXPECT_BYTES(seen, pattern(size, 5));
}

class CloseOrderOfDescriptors : public CloseOrder {};
WEIR_FOR_EACH_EXPORTABLE(CloseOrderOfDescriptors);

TEST_P(CloseOrderOfDescriptors, OneThatNobodyOpenedYetHoldsTheMemory) {
  Buffer source = filled(pattern(size, 6));
  ipc::Descriptor descriptor = source.slice(10, 1000).ipc_descriptor(stream);
  source.close();
  stream.synchronize();
  resource->trim(0);
  scribble();
  const Buffer opened = ipc::open(std::move(descriptor), stream);
  EXPECT_BYTES(read(opened, stream), part(pattern(size, 6), 10, 1000));
}

TEST_P(CloseOrderOfDescriptors, OpenedMemoryStaysForPendingWork) {
  const Stream other(device());
  Buffer source = filled(pattern(size, 7));
  Buffer opened = ipc::open(source.ipc_descriptor(stream), other);
  Bytes seen(size);
  Gate gate;
  gate.hold(other);
  opened.copy_to(seen, other);
  opened.close();
  source.close();
  stream.synchronize();
  scribble();
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, pattern(size, 7));
}

}  // namespace
}  // namespace weir::test
