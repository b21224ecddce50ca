// SPDX-License-Identifier: Apache-2.0
// Two processes on the same bytes, for every memory that can be exported.

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fds.hpp"
#include "fixture.hpp"
#include "spawn.hpp"
#include "threads.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

class SharingProcesses : public OnMemory {
 protected:
  [[nodiscard]] Child spawn(const std::string& mode, std::size_t bytes, const Device& on, std::uint32_t seed = 1) {
    return {WEIR_CHILD_DIR "/import_child", {mode, on.id(), std::to_string(bytes), std::to_string(seed)}};
  }

  void expect_rewritten(Child& child, const Buffer& buffer, std::uint32_t seed = 1) const {
    EXPECT_EQ(child.line(), "done");
    EXPECT_EQ(child.wait(), 0);
    EXPECT_BYTES(read(buffer, stream), pattern(buffer.size(), seed + 1));
  }
};
WEIR_FOR_EACH_EXPORTABLE(SharingProcesses);

TEST_P(SharingProcesses, TheChangeIsSeenHere) {
  for (const std::size_t bytes : {1U, 4096U, 100001U}) {
    const Buffer buffer = filled(pattern(bytes, 1));
    Child child = spawn("rewrite", bytes, device());
    ipc::send(child.socket(), buffer.ipc_descriptor(stream));
    expect_rewritten(child, buffer);
  }
}

TEST_P(SharingProcesses, OpenedOnAHostStream) {
  const Buffer buffer = filled(pattern(5000, 1));
  Child child = spawn("rewrite", 5000, host_device());
  ipc::send(child.socket(), buffer.ipc_descriptor(stream));
  expect_rewritten(child, buffer);
}

TEST_P(SharingProcesses, SlicesCarryTheirOffset) {
  const Buffer buffer = filled(pattern(10000, 7));
  const Buffer slice = buffer.slice(1003, 3001);
  Buffer inner = slice.share();
  write(inner, pattern(3001, 1), stream);
  stream.synchronize();
  Child child = spawn("rewrite", 3001, device());
  ipc::send(child.socket(), slice.ipc_descriptor(stream));
  expect_rewritten(child, slice);
  const Bytes all = read(buffer, stream);
  EXPECT_BYTES(part(all, 0, 1003), part(pattern(10000, 7), 0, 1003));
  EXPECT_BYTES(part(all, 4004, 5996), part(pattern(10000, 7), 4004, 5996));
}

TEST_P(SharingProcesses, LargeAlignmentCarriesItsOffset) {
  Buffer buffer = resource->allocate(5000, stream, 1U << 20U);
  write(buffer, pattern(5000, 1), stream);
  stream.synchronize();
  Child child = spawn("rewrite", 5000, device());
  ipc::send(child.socket(), buffer.ipc_descriptor(stream));
  expect_rewritten(child, buffer);
}

// A file that was sent has one position for all processes that have it.
TEST_P(SharingProcesses, OthersMayMoveTheFilesPosition) {
  const Buffer buffer = filled(pattern(5000, 1));
  const ipc::Descriptor descriptor = buffer.ipc_descriptor(stream);
  const int file = descriptor.fds().front().get();
  std::atomic<bool> over = false;
  const Thread others([&] {
    while (!over) (void)::lseek(file, 7, SEEK_SET);  // files of GPUs have none
  });
  const std::shared_ptr<void> ends(nullptr, [&](void*) { over = true; });  // also if an import throws
  for (int i = 0; i < 50; ++i) {
    std::vector<spi::UniqueFd> files;
    for (const spi::UniqueFd& one : descriptor.fds()) files.push_back(one.duplicate());
    const Bytes bytes(descriptor.bytes().begin(), descriptor.bytes().end());
    EXPECT_BYTES(read(ipc::open({bytes, std::move(files)}, stream), stream), pattern(5000, 1));
  }
}

TEST_P(SharingProcesses, SentTwice) {
  const Buffer buffer = filled(pattern(5000, 1));
  const ipc::Descriptor descriptor = buffer.ipc_descriptor(stream);
  Child child = spawn("twice", 5000, device());
  ipc::send(child.socket(), descriptor);
  ipc::send(child.socket(), descriptor);
  expect_rewritten(child, buffer);
}

TEST_P(SharingProcesses, PendingWritesOfTheExporterComeFirst) {
  Buffer buffer = filled(pattern(5000, 9));
  Child child = spawn("follow", 5000, device());
  Gate gate;
  gate.hold(stream);
  write(buffer, pattern(5000, 1), stream);
  ipc::send(child.socket(), buffer.ipc_descriptor(stream));
  EXPECT_EQ(child.line(), "open");  // what it says next depends on the bytes
  pollfd said{child.socket(), POLLIN, 0};
  EXPECT_EQ(::poll(&said, 1, 50), 0) << "the other process did not wait";
  EXPECT_FALSE(stream.done());
  gate.open();
  expect_rewritten(child, buffer);
}

TEST_P(SharingProcesses, SurvivesTheExportersClose) {
  Child child = spawn("late", 5000, device());
  {
    Buffer buffer = filled(pattern(5000, 1));
    ipc::send(child.socket(), buffer.ipc_descriptor(stream));
    buffer.close();
  }
  resource->trim(0);
  for (int i = 0; i < 4; ++i) resource->allocate(5000, stream).fill(std::uint8_t{0xff}, stream);
  stream.synchronize();
  child.say("go");
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(child.wait(), 0);
}

TEST_P(SharingProcesses, AKilledPeerTakesNothingAlong) {
  (void)filled(pattern(1, 1)).ipc_descriptor(stream);  // the first one opens a file for good
  resource->trim(0);                                   // some resources look at memory before it goes
  const std::size_t before = open_fds();
  Buffer buffer = filled(pattern(5000, 1));
  {
    Child child = spawn("hold", 5000, device());
    ipc::send(child.socket(), buffer.ipc_descriptor(stream));
    ASSERT_EQ(child.line(), "open");
    child.kill();
  }
  EXPECT_BYTES(read(buffer, stream), pattern(5000, 1));
  buffer.fill(std::uint8_t{3}, stream);
  EXPECT_BYTES(read(buffer, stream), repeat(5000, 3));
  buffer.close();
  stream.synchronize();
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
  EXPECT_FDS(before);
}

TEST_P(SharingProcesses, AnExportToAProcessThatNeverReads) {
  const Buffer buffer = filled(pattern(5000, 1));
  Child child = spawn("hold", 5000, device());
  child.kill();
  EXPECT_ERROR(ipc::send(child.socket(), buffer.ipc_descriptor(stream)), Errc::peer_gone, "");
  EXPECT_BYTES(read(buffer, stream), pattern(5000, 1));
}

}  // namespace
}  // namespace weir::test
