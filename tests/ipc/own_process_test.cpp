// SPDX-License-Identifier: Apache-2.0
// Opening one's own export, what descriptors keep alive, and what cannot be exported.

#include <chrono>
#include <cstdint>

#include "fds.hpp"
#include "fixture.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

/// Tests that count files: the first export opens one for good, and each test ends with nothing on its way, which the
/// next one would see closing.
class Exports : public OnMemory {
 protected:
  void SetUp() override {
    OnMemory::SetUp();
    if (resource->is_exportable()) (void)filled(pattern(1, 1)).ipc_descriptor(stream);
    stream.synchronize();
    resource->trim(0);
  }
  void TearDown() override {
    stream.synchronize();
    resource->trim(0);
    OnMemory::TearDown();
  }
};

class OwnExport : public Exports {};
WEIR_FOR_EACH_EXPORTABLE(OwnExport);

TEST_P(OwnExport, IsTheSameMemory) {
  Buffer buffer = filled(pattern(5000, 1));
  Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
  EXPECT_EQ(opened.size(), 5000U);
  EXPECT_EQ(opened.device(), device());
  EXPECT_EQ(opened.is_host_accessible(), buffer.is_host_accessible());
  EXPECT_EQ(opened.is_device_accessible(), buffer.is_device_accessible());
  EXPECT_BYTES(read(opened, stream), pattern(5000, 1));
  opened.fill(std::uint8_t{5}, 100, 200, stream);
  Bytes model = pattern(5000, 1);
  std::fill_n(model.begin() + 100, 200, std::byte{5});
  EXPECT_BYTES(read(buffer, stream), model);
  buffer.fill(std::uint8_t{6}, stream);
  EXPECT_BYTES(read(opened, stream), repeat(5000, 6));
}

TEST_P(OwnExport, SlicesToo) {
  const Buffer buffer = filled(pattern(5000, 1));
  const Buffer opened = ipc::open(buffer.slice(333, 1001).ipc_descriptor(stream), stream);
  EXPECT_BYTES(read(opened, stream), part(pattern(5000, 1), 333, 1001));
}

TEST_P(OwnExport, MayBeOpenedManyTimes) {
  const Buffer buffer = filled(pattern(300, 1));
  std::vector<Buffer> opened;
  for (int i = 0; i < 5; ++i) opened.push_back(ipc::open(buffer.ipc_descriptor(stream), stream));
  opened[2].fill(std::uint8_t{1}, stream);
  opened[0].close();
  for (std::size_t i = 1; i < opened.size(); ++i) EXPECT_BYTES(read(opened[i], stream), repeat(300, 1));
  EXPECT_BYTES(read(buffer, stream), repeat(300, 1));
}

TEST_P(OwnExport, OpenedBuffersOutliveTheOriginal) {
  Buffer buffer = filled(pattern(5000, 1));
  Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
  buffer.close();
  stream.synchronize();
  resource->allocate(5000, stream).fill(std::uint8_t{0xff}, stream);
  EXPECT_BYTES(read(opened, stream), pattern(5000, 1));
}

TEST_P(OwnExport, StreamsOfOpenWaitForTheExportersPoint) {
  const Stream other(device());
  Buffer buffer = filled(repeat(5000, 0x11));
  Bytes seen(5000);
  Gate gate;
  gate.hold(stream);
  write(buffer, pattern(5000, 2), stream);
  const Buffer opened = ipc::open(buffer.ipc_descriptor(stream), other);
  opened.copy_to(seen, other);
  EXPECT_EQ(other.synchronize(std::chrono::milliseconds{50}), WaitStatus::timeout);
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, pattern(5000, 2));
}

TEST_P(OwnExport, NothingIsLeftOpen) {
  const auto round = [this] {
    Buffer buffer = filled(pattern(5000, 1));
    const ipc::Descriptor unused = buffer.ipc_descriptor(stream);
    Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
    EXPECT_BYTES(read(opened, stream), pattern(5000, 1));
  };
  round();
  stream.synchronize();
  resource->trim(0);
  const std::size_t before = open_fds();
  for (int i = 0; i < 5; ++i) round();
  stream.synchronize();
  resource->trim(0);
  EXPECT_FDS(before);
  EXPECT_EQ(resource->stats().reserved, 0U);
}

TEST_P(OwnExport, DescriptorsOfOneBufferNameOneSegment) {
  const Buffer buffer = filled(pattern(64, 1));
  const ipc::Descriptor first = buffer.ipc_descriptor(stream);
  const ipc::Descriptor second = buffer.ipc_descriptor(stream);
  EXPECT_EQ(first.bytes().size(), ipc::Descriptor::size);
  EXPECT_FALSE(first.fds().empty());
  EXPECT_NE(first.fds()[0].get(), second.fds()[0].get());
  const ipc::Descriptor other = filled(pattern(64, 1)).ipc_descriptor(stream);
  EXPECT_FALSE(same_bytes(first.bytes(), other.bytes()));
}

TEST_P(OwnExport, ZeroBytesHaveNothingToShare) {
  EXPECT_ERROR(resource->allocate(0, stream).ipc_descriptor(stream), Errc::invalid_argument, "zero bytes");
  const Buffer buffer = filled(pattern(64, 1));
  EXPECT_ERROR(buffer.slice(64, 0).ipc_descriptor(stream), Errc::invalid_argument, "zero bytes");
}

TEST_P(OwnExport, WrongStreamsAreRefused) {
  const Buffer buffer = filled(pattern(64, 1));
  const std::size_t before = open_fds();
  Stream gone = stream;
  const Stream taken = std::move(gone);
  // NOLINTBEGIN(bugprone-use-after-move): that is the subject
  EXPECT_ERROR(buffer.ipc_descriptor(gone), Errc::closed, "Stream");
  EXPECT_ERROR(ipc::open(buffer.ipc_descriptor(stream), gone), Errc::closed, "Stream");
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_FDS(before);
}

class NoExport : public Exports {};
WEIR_FOR_EACH_MEMORY(NoExport);

TEST_P(NoExport, IsTruthful) {
  const Buffer buffer = filled(pattern(64, 1));
  const std::size_t before = open_fds();
  if (resource->is_exportable()) {
    EXPECT_FALSE(buffer.ipc_descriptor(stream).fds().empty());
  } else {
    EXPECT_ERROR(buffer.ipc_descriptor(stream), Errc::unsupported, "export");
  }
  EXPECT_FDS(before);
}

}  // namespace
}  // namespace weir::test
