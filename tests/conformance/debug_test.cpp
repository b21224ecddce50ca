// SPDX-License-Identifier: Apache-2.0
// What a debug resource finds, in every memory: writes before and after a buffer, and after its end.

#include <cstdint>

#include "fixture.hpp"
#include "settle.hpp"
#include "sink.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::test {
namespace {

class DebugChecks : public OnMemory {
 protected:
  static constexpr std::size_t size = 1001;

  /// What who has only an address can do: write `count` bytes at `offset` from a buffer's beginning, for
  /// ever.
  struct Stray {
    Stray(const Buffer& buffer, std::ptrdiff_t offset, std::size_t bytes) : place(buffer.location()), count(bytes) {
      place.offset += static_cast<std::size_t>(offset);
    }
    void write(const Stream& on) const { on.state().put(spi::FillOp{place, count, 0x11, 1}); }
    spi::Location place;
    std::size_t count;
  };

  /// The one report of a damaged buffer, after all that is pending.
  std::string the_report() {
    stream.synchronize();
    checked->trim(0);
    const auto reports = take_reports();
    EXPECT_EQ(reports.size(), 1U);
    if (reports.empty()) return {};
    EXPECT_EQ(reports[0].where, checked->name());
    return reports[0].message;
  }

  DebugPtr checked = make_debug(resource);
};
const Subset plain{[](const Memory& memory) { return !memory.stack; }};
WEIR_FOR_EACH_MEMORY_OF(plain, DebugChecks);

TEST_P(DebugChecks, WhoKeepsWithinHearsNothing) {
  for (const std::size_t bytes : {1U, 7U, 4096U, 100000U}) {
    for (const std::size_t alignment : {256U, 4096U, 65536U}) {
      Buffer buffer = checked->allocate(bytes, stream, alignment);
      write(buffer, pattern(bytes, 1), stream);
      EXPECT_BYTES(read(buffer, stream), pattern(bytes, 1));
    }
  }
  stream.synchronize();
  checked->trim(0);
  EXPECT_EQ(checked->violations(), 0U);
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(DebugChecks, AWriteBeyondTheEnd) {
  (void)checked->allocate(1, stream);
  Buffer buffer = checked->allocate(size, stream);
  Stray(buffer, size, 4).write(stream);
  buffer.close();
  EXPECT_EQ(the_report(), "buffer 2 of 1001 bytes (stream " + std::to_string(stream.id()) +
                              "): 4 bytes after its end were overwritten, the first at offset 1001");
  EXPECT_EQ(checked->violations(), 1U);
}

TEST_P(DebugChecks, AWriteBeforeTheBeginning) {
  Buffer buffer = checked->allocate(size, stream, 65536);
  Stray(buffer, -256, 1).write(stream);
  buffer.close();
  EXPECT_EQ(the_report(), "buffer 1 of 1001 bytes (stream " + std::to_string(stream.id()) +
                              "): 1 bytes before its beginning were overwritten, the first at offset -256");
}

TEST_P(DebugChecks, WorkThatIsPendingAtTheCloseIsSeen) {
  const Stream other(device());
  Gate gate;
  Buffer buffer = checked->allocate(size, stream);
  const Stray stray(buffer, size + 100, 3);
  stream.synchronize();
  gate.hold(other);
  stray.write(other);
  buffer.close(other);
  EXPECT_EQ(checked->violations(), 0U);
  EXPECT_EQ(checked->stats().live_buffers, 0U);
  EXPECT_GE(resource->stats().live_buffers, 1U) << "upstream gets it once it was looked at";
  gate.open();
  other.synchronize();
  EXPECT_NE(the_report().find("the first at offset 1101"), std::string::npos);
}

TEST_P(DebugChecks, AWriteAfterTheEnd) {
  Buffer buffer = checked->allocate(size, stream);
  const Stray stray(buffer, 10, 2);
  stream.synchronize();
  buffer.close();
  await_releases();  // the buffer was looked at, and is kept
  if (resource->is_exportable()) {
    EXPECT_EQ(resource->stats().live_buffers, 0U) << "not kept: another process may rightly use it";
    return;
  }
  ASSERT_EQ(resource->stats().live_buffers, 1U);
  stray.write(stream);
  EXPECT_EQ(the_report(), "buffer 1 of 1001 bytes (stream " + std::to_string(stream.id()) +
                              "): 2 bytes were written after it was closed, the first at offset 10");
}

TEST_P(DebugChecks, NewMemoryIsPoisoned) {
  const Buffer buffer = checked->allocate(size, stream);
  EXPECT_BYTES(read(buffer, stream), repeat(size, 0xcd));
}

}  // namespace
}  // namespace weir::test
