// SPDX-License-Identifier: Apache-2.0
// Work that weir does not see, here copies through a second buffer over the same address: `use_on` orders the memory's
// reuse after it, `order_after_uses` orders a reader after it.

#include <cstdint>

#include "fixture.hpp"

namespace weir::test {
namespace {

class UseOn : public OnMemory {
 protected:
  static constexpr std::size_t size = 8192;

  /// Another application's view of the memory: what is done through it is not on `buffer`'s record.
  [[nodiscard]] Buffer behind_the_back_of(const Buffer& buffer) const {
    const bool by_host = device().backend() == "vulkan";
    const auto host = reinterpret_cast<std::uintptr_t>(buffer.host_data());
    return Buffer::from_handle(by_host ? host_device() : device(), by_host ? host : buffer.device_address(),
                               buffer.size(), {}, stream);
  }
  void scribble() const {
    const Stream fresh(device());
    for (int i = 0; i < 4; ++i) resource->allocate(size, fresh).fill(std::uint8_t{0xff}, fresh);
    fresh.synchronize();
  }
  /// Memory that a held stream reads behind weir's back is whole when that goes on, given that `close` says so.
  template <class Close>
  void expect_kept_for_streams_of_every_device(Close close) const {
    for (const Device& theirs : devices()) {
      const Stream other(theirs);
      Buffer source = filled(pattern(size, 1));
      const Buffer alias = behind_the_back_of(source);
      Bytes seen(size);
      Gate gate;
      gate.hold(other);
      alias.copy_to(seen, other);
      close(source, other);
      scribble();
      EXPECT_FALSE(other.done()) << theirs.id();
      gate.open();
      other.synchronize();
      EXPECT_BYTES(seen, pattern(size, 1)) << theirs.id();
    }
  }
};
WEIR_FOR_EACH_ADDRESSABLE(UseOn);

TEST_P(UseOn, StreamsOfEveryDevice) {
  expect_kept_for_streams_of_every_device([](Buffer& buffer, const Stream& user) {
    buffer.use_on(user);
    buffer.close();
  });
}

TEST_P(UseOn, ClosingOnTheStreamSaysTheSame) {
  expect_kept_for_streams_of_every_device([](Buffer& buffer, const Stream& user) { buffer.close(user); });
}

TEST_P(UseOn, TheLatestUseOfAStreamCounts) {
  const Stream other(device());
  Buffer source = filled(pattern(size, 2));
  const Buffer alias = behind_the_back_of(source);
  Bytes first(size), second(size);
  Gate early, late;
  early.hold(other);
  alias.copy_to(first, other);
  source.use_on(other);
  late.hold(other);
  alias.copy_to(second, other);
  source.use_on(other);
  source.close();
  early.open();
  scribble();
  late.open();
  other.synchronize();
  EXPECT_BYTES(first, pattern(size, 2));
  EXPECT_BYTES(second, pattern(size, 2));
}

TEST_P(UseOn, ThroughASliceCountsForTheWhole) {
  const Stream other(device());
  Buffer source = filled(pattern(size, 3));
  const Buffer alias = behind_the_back_of(source);
  Bytes seen(size);
  Gate gate;
  gate.hold(other);
  alias.copy_to(seen, other);
  source.slice(17, 0).use_on(other);
  source.close();
  scribble();
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, pattern(size, 3));
}

TEST_P(UseOn, CoversNothingLater) {
  const Stream other(device());
  Buffer source = filled(pattern(size, 4));
  source.use_on(other);
  source.close();
  Gate gate;
  gate.hold(other);
  resource->trim(0);  // would wait for the gate
  EXPECT_EQ(resource->stats().reserved, 0U);
  EXPECT_FALSE(other.done());
}

class OrderAfterUses : public OnMemory {};
WEIR_FOR_EACH_MEMORY(OrderAfterUses);

TEST_P(OrderAfterUses, WaitsForRecordedUsesAndTheAllocationStream) {
  const Stream writer(device());
  Buffer buffer = filled(repeat(300, 0x11));
  Gate here, there;
  here.hold(stream);
  there.hold(writer);
  buffer.fill(std::uint8_t{0x22}, 0, 100, stream);
  buffer.fill(std::uint8_t{0x33}, 100, 100, writer);
  for (const Device& theirs : devices()) {
    const Stream reader(theirs);
    buffer.order_after_uses(reader);
    EXPECT_FALSE(reader.done()) << theirs.id();
  }
  const Stream reader(device());
  buffer.order_after_uses(reader);
  here.open();
  EXPECT_EQ(reader.synchronize(std::chrono::milliseconds{2}), WaitStatus::timeout);
  there.open();
  Bytes expected = repeat(300, 0x11);
  std::fill_n(expected.begin(), 100, std::byte{0x22});
  std::fill_n(expected.begin() + 100, 100, std::byte{0x33});
  EXPECT_BYTES(read(buffer, reader), expected);
}

TEST_P(OrderAfterUses, ClosedBuffersAndMovedStreamsAreRefused) {
  Buffer buffer = resource->allocate(16, stream);
  Stream gone = stream;
  const Stream taken = std::move(gone);
  EXPECT_ERROR(buffer.order_after_uses(gone), Errc::closed, "Stream");  // NOLINT(bugprone-use-after-move)
  buffer.close();
  EXPECT_ERROR(buffer.order_after_uses(stream), Errc::closed, "order_after_uses");
}

}  // namespace
}  // namespace weir::test
