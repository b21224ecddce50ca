// SPDX-License-Identifier: Apache-2.0
// What a fresh buffer knows, and what its resource counts.

#include <cstdint>

#include "fixture.hpp"

namespace weir::test {
namespace {

class Allocation : public OnMemory {};
WEIR_FOR_EACH_MEMORY(Allocation);

TEST_P(Allocation, KnowsWhatItIs) {
  const Buffer buffer = resource->allocate(1000, stream);
  EXPECT_FALSE(buffer.is_closed());
  EXPECT_EQ(buffer.size(), 1000U);
  EXPECT_EQ(buffer.offset(), 0U);
  EXPECT_EQ(buffer.device(), device());
  EXPECT_EQ(buffer.kind(), info().kind);
  EXPECT_EQ(buffer.memory_resource(), resource);
  EXPECT_FALSE(buffer.is_read_only());
  EXPECT_NE(buffer.location().segment, nullptr);
}

TEST_P(Allocation, ResourceKnowsWhatItIs) {
  EXPECT_EQ(resource->device(), device());
  EXPECT_EQ(resource->is_host_accessible(), info().host_accessible);
  EXPECT_EQ(resource->is_device_accessible(), info().device_accessible);
  EXPECT_TRUE(resource->is_exportable() || !GetParam().exportable);
  EXPECT_NE(resource->name().find(device().backend()), std::string::npos) << resource->name();
  EXPECT_NE(resource->name().find(to_string(info().kind)), std::string::npos) << resource->name();
  ResourcePtr plain = resource;
  for (std::size_t i = 0; i < GetParam().layers(); ++i) {
    plain = plain->upstream();
    ASSERT_NE(plain, nullptr) << "layer " << i;
  }
  EXPECT_EQ(plain->upstream(), nullptr) << "stands on a driver";
}

TEST_P(Allocation, SizesThatAreNotRound) {
  for (const std::size_t bytes : {1U, 2U, 3U, 255U, 257U, 4095U, 65537U, 1048577U}) {
    const Bytes expected = pattern(bytes, 1);
    const Buffer buffer = filled(expected);
    ASSERT_EQ(buffer.size(), bytes);
    ASSERT_BYTES(read(buffer, stream), expected);
  }
}

TEST_P(Allocation, LiveBuffersDoNotTouchEachOther) {
  std::vector<Buffer> buffers;
  for (std::uint32_t i = 0; i < 16; ++i) {
    buffers.push_back(resource->allocate(100 + 37 * i, stream));
    write(buffers.back(), pattern(buffers.back().size(), i), stream);
  }
  for (std::uint32_t i = 0; i < buffers.size(); ++i) {
    EXPECT_BYTES(read(buffers[i], stream), pattern(buffers[i].size(), i)) << "buffer " << i;
  }
}

TEST_P(Allocation, StatsCountWhatLives) {
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  Buffer first = resource->allocate(1000, stream);
  Buffer second = resource->allocate(3000, stream);
  ResourceStats now = resource->stats();
  EXPECT_EQ(now.live_buffers, 2U);
  EXPECT_EQ(now.in_use, 4000U);
  EXPECT_GE(now.reserved, 4000U);
  EXPECT_EQ(now.allocations, 2U);
  second.close();
  now = resource->stats();
  EXPECT_EQ(now.live_buffers, 1U);
  EXPECT_EQ(now.in_use, 1000U);
  EXPECT_EQ(now.peak_in_use, 4000U);
  EXPECT_GE(now.peak_reserved, 4000U);
  first.close();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  EXPECT_EQ(resource->stats().in_use, 0U);
  EXPECT_EQ(resource->stats().allocations, 2U);
}

TEST_P(Allocation, TrimGivesEverythingBackThatNobodyUses) {
  Buffer kept = filled(pattern(5000, 3));
  Buffer dropped = resource->allocate(70000, stream);
  dropped.fill(std::uint8_t{1}, stream);
  dropped.close();
  resource->trim(0);
  EXPECT_BYTES(read(kept, stream), pattern(5000, 3));
  kept.close();
  stream.synchronize();
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

TEST_P(Allocation, TrimWaitsForWhatIsClosed) {
  Buffer buffer = resource->allocate(70000, stream);
  buffer.fill(std::uint8_t{1}, stream);
  buffer.close(stream);
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

TEST_P(Allocation, TryAllocateReturnsABuffer) {
  auto buffer = resource->try_allocate(512, stream, 512);
  ASSERT_TRUE(buffer.has_value());
  EXPECT_EQ(buffer->size(), 512U);
  EXPECT_EQ(buffer->memory_resource(), resource);
}

TEST_P(Allocation, OnAStreamOfEveryOtherDevice) {
  for (const Device& other : devices()) {
    const Stream theirs(other);
    Buffer buffer = resource->allocate(777, theirs);
    write(buffer, pattern(777, 9), theirs);
    EXPECT_BYTES(read(buffer, theirs), pattern(777, 9)) << other.id();
  }
}

TEST_P(Allocation, BufferKeepsItsResourceAndStreamAlive) {
  Buffer buffer = filled(pattern(300, 4));
  const auto name = resource->name();
  resource.reset();
  stream = Stream(device());
  EXPECT_BYTES(read(buffer, stream), pattern(300, 4));
  resource = buffer.memory_resource();
  EXPECT_EQ(resource->name(), name);
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  Buffer more = filled(pattern(300, 5));
  EXPECT_EQ(more.memory_resource(), resource);
}

TEST_P(Allocation, BufferOutlivesEveryOtherHandle) {
  Buffer buffer = [this] {
    const ResourcePtr own = GetParam().make();
    const Stream theirs(device());
    Buffer made = own->allocate(4096, theirs);
    made.fill(std::uint32_t{0xdecade}, theirs);
    theirs.synchronize();
    return made;
  }();
  resource.reset();
  std::uint32_t word = 0;
  buffer.copy_to(std::as_writable_bytes(std::span(&word, 1)), stream, 4092);
  stream.synchronize();
  EXPECT_EQ(word, 0xdecadeU);
}

TEST_P(Allocation, StaticBuffersMayOutliveMain) {
  struct Static {
    Buffer buffer;
    ResourcePtr resource;
    Stream stream;
  };
  static std::vector<Static> left;  // destroyed after main, in whatever order; a crash there fails the program
  Buffer buffer = resource->allocate(1000, stream);
  buffer.fill(std::uint8_t{1}, stream);
  left.push_back({std::move(buffer), resource, stream});
  left.push_back({filled(pattern(10, 1)), nullptr, Stream(device())});
}

TEST_P(Allocation, ManyComeAndGo) {
  for (std::uint32_t i = 0; i < 200; ++i) {
    Buffer buffer = resource->allocate(1 + i * 13 % 5000, stream);
    buffer.fill(static_cast<std::uint8_t>(i), stream);
  }
  stream.synchronize();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  EXPECT_EQ(resource->stats().allocations, 200U);
}

}  // namespace
}  // namespace weir::test
