// SPDX-License-Identifier: Apache-2.0
// The exporter's point, carried by a socket whose other end a test can play itself.

#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "descriptor_fields.hpp"
#include "fds.hpp"
#include "fixture.hpp"
#include "sink.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

using spi::UniqueFd;

class Ready : public OnMemory {
 protected:
  /// The descriptor of `buffer`, said to be ready when a byte is written to `writer`.
  [[nodiscard]] ipc::Descriptor pending(const Buffer& buffer, UniqueFd& writer) const {
    const ipc::Descriptor plain = buffer.ipc_descriptor(stream);
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    writer.reset(ends[1]);
    std::vector<UniqueFd> fds;
    fds.push_back(plain.fds()[0].duplicate());
    fds.emplace_back(ends[0]);
    for (const UniqueFd& lease : plain.fds().subspan(1)) fds.push_back(lease.duplicate());
    const auto flags = wire::get(plain.bytes(), wire::flags) | 2U;
    const Bytes bytes = wire::with(wire::with(plain.bytes(), wire::flags, flags), wire::fd_count, fds.size());
    return {bytes, std::move(fds)};
  }
};
WEIR_FOR_EACH_EXPORTABLE(Ready);

TEST_P(Ready, TheImportersStreamWaitsForIt) {
  Buffer buffer = filled(repeat(3000, 0x11));
  const Stream other(device());
  UniqueFd writer;
  const Buffer opened = ipc::open(pending(buffer, writer), other);
  Bytes seen(3000);
  opened.copy_to(seen, other);
  EXPECT_FALSE(other.done());
  buffer.fill(std::uint8_t{0x22}, stream);
  stream.synchronize();
  EXPECT_FALSE(other.done());
  ASSERT_EQ(::send(writer.get(), "x", 1, MSG_NOSIGNAL), 1);
  other.synchronize();
  EXPECT_BYTES(seen, repeat(3000, 0x22));
}

TEST_P(Ready, AnExporterThatDiesIsSaidSo) {
  const Buffer buffer = filled(repeat(3000, 0x11));
  const Stream other(device());
  UniqueFd writer;
  Buffer opened = ipc::open(pending(buffer, writer), other);
  const Event end = other.record();
  EXPECT_FALSE(end.done());
  writer.reset();
  EXPECT_ERROR(other.synchronize(), Errc::peer_gone, "");
  EXPECT_ERROR(opened.fill(std::uint8_t{0}, other), Errc::peer_gone, "");
  EXPECT_EQ(end.wait(std::chrono::nanoseconds{-1}), WaitStatus::lost);
  opened.close();
  EXPECT_EQ(await_reports(2).size(), 2U) << "the exporter's point and the stream that waited for it";
  EXPECT_BYTES(read(buffer, stream), repeat(3000, 0x11));
}

TEST_P(Ready, ExportsOfPendingWorkCarryTheirPoint) {
  Buffer buffer = filled(repeat(3000, 0x11));
  const Stream other(device());
  Gate gate;
  gate.hold(stream);
  buffer.fill(std::uint8_t{0x22}, stream);
  ipc::Descriptor descriptor = buffer.ipc_descriptor(stream);
  EXPECT_EQ(descriptor.fds().size(), resource->reuses_memory() ? 3U : 2U);
  const Buffer opened = ipc::open(std::move(descriptor), other);
  Bytes seen(3000);
  opened.copy_to(seen, other);
  EXPECT_FALSE(other.done());
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, repeat(3000, 0x22));
}

TEST_P(Ready, UsesOnOtherStreamsArePartOfThePoint) {
  Buffer buffer = filled(repeat(3000, 0x11));
  const Stream writer(device());
  const Stream other(device());
  Gate gate;
  gate.hold(writer);
  buffer.fill(std::uint8_t{0x33}, writer);
  const Buffer opened = ipc::open(buffer.ipc_descriptor(stream), other);
  Bytes seen(3000);
  opened.copy_to(seen, other);
  EXPECT_FALSE(other.done());
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, repeat(3000, 0x33));
}

}  // namespace
}  // namespace weir::test
