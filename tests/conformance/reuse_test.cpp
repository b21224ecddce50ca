// SPDX-License-Identifier: Apache-2.0
// Memory is reused after its allocation stream and every recorded use, and nobody waits on the host for that. Reuse
// that comes too early shows as wrong bytes.

#include <cstdint>

#include "fixture.hpp"

namespace weir::test {
namespace {

class Reuse : public OnMemory {
 protected:
  static constexpr std::size_t size = 8192;

  /// Use up whatever was given back too early.
  void scribble(const Stream& on) const {
    for (int i = 0; i < 8; ++i) resource->allocate(size, on).fill(std::uint8_t{0xff}, on);
    on.synchronize();
  }
};
WEIR_FOR_EACH_MEMORY(Reuse);

TEST_P(Reuse, AfterPendingWorkOfTheAllocationStream) {
  const Stream other(device());
  Buffer target = resource->allocate(size, other);
  Gate gate;
  gate.hold(stream);
  Buffer source = resource->allocate(size, stream);
  write(source, pattern(size, 1), stream);
  target.copy_from(source, stream);
  source.close();
  scribble(other);
  EXPECT_FALSE(stream.done());
  gate.open();
  EXPECT_BYTES(read(target, stream), pattern(size, 1));
}

TEST_P(Reuse, AfterUsesOnAnotherStream) {
  const Stream other(device());
  Buffer source = filled(pattern(size, 2));
  Buffer target = resource->allocate(size, other);
  Gate gate;
  gate.hold(other);
  target.copy_from(source, other);
  source.close();
  scribble(stream);
  EXPECT_FALSE(other.done());
  gate.open();
  EXPECT_BYTES(read(target, other), pattern(size, 2));
}

TEST_P(Reuse, AfterUsesOnStreamsOfEveryDevice) {
  for (const Device& theirs : devices()) {
    const Stream other(theirs);
    Buffer source = filled(pattern(size, 3));
    Bytes seen(size);
    Gate gate;
    gate.hold(other);
    source.copy_to(seen, other);
    source.close();
    scribble(stream);
    gate.open();
    other.synchronize();
    EXPECT_BYTES(seen, pattern(size, 3)) << theirs.id();
  }
}

TEST_P(Reuse, AfterTheStreamGivenToClose) {
  const Stream other(device());
  Buffer source = filled(pattern(size, 4));
  Bytes seen(size);
  Gate gate;
  gate.hold(other);
  if (info().host_accessible) {  // work that weir does not see
    before_host_read(source);
    other.call([&seen, from = source.host_data()] { std::copy_n(from, seen.size(), seen.begin()); });
  } else {
    source.copy_to(seen, other);
  }
  source.close(other);
  EXPECT_TRUE(source.is_closed());
  scribble(stream);
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, pattern(size, 4));
}

class ReuseOnTheHost : public Reuse {};
WEIR_FOR_EACH_HOST_ACCESSIBLE(ReuseOnTheHost);

TEST_P(ReuseOnTheHost, AfterWorkThatWasAnnounced) {
  const Stream other(host_device());
  Buffer source = filled(pattern(size, 5));
  Bytes seen(size);
  Gate gate;
  gate.hold(other);
  before_host_read(source);
  other.call([&seen, from = source.host_data()] { std::copy_n(from, seen.size(), seen.begin()); });
  source.use_on(other);
  source.close();
  scribble(stream);
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, pattern(size, 5));
}

TEST_P(Reuse, DestinationLivesUntilItsCopyIsDone) {
  const Stream other(device());
  Gate gate;
  gate.hold(stream);
  {
    const Bytes content = pattern(size, 6);
    Buffer source = resource->allocate(size, stream);
    Buffer target = resource->allocate(size, other);
    source.copy_from(content, stream);
    target.copy_from(source, stream);
    target.fill(std::uint8_t{3}, 1, size - 1, stream);
  }
  Buffer innocent = resource->allocate(size, other);
  innocent.fill(std::uint8_t{0x44}, other);
  other.synchronize();
  gate.open();
  stream.synchronize();
  EXPECT_BYTES(read(innocent, other), repeat(size, 0x44));
}

TEST_P(Reuse, CountersFollowTheLastUse) {
  const Stream other(device());
  Buffer source = filled(pattern(size, 7));
  Bytes seen(size);
  Gate gate;
  gate.hold(other);
  source.copy_to(seen, other);
  source.close();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  gate.open();
  other.synchronize();
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
  EXPECT_BYTES(seen, pattern(size, 7));
}

TEST_P(Reuse, StreamsResourcesAndBuffersGoInAnyOrder) {
  Gate gate;
  Bytes seen(size);
  Event end;
  {
    const ResourcePtr own = GetParam().make();
    const Stream theirs(device());
    Buffer source = own->allocate(size, theirs);
    gate.hold(theirs);
    write(source, pattern(size, 8), theirs);
    source.copy_to(seen, theirs);
    end = theirs.record();
  }
  scribble(stream);
  EXPECT_FALSE(end.done());
  gate.open();
  end.wait();
  EXPECT_BYTES(seen, pattern(size, 8));
}

}  // namespace
}  // namespace weir::test
