// SPDX-License-Identifier: Apache-2.0
// The importer's end of a ready point, with what a stranger may have sent as its socket.
#include "ipc/ready_point.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>

#include "expect.hpp"
#include "gate.hpp"
#include "sink.hpp"
#include "spawn.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::test {
namespace {

TEST(ReadyPoint, IsReachedByTheFirstByte) {
  auto [importer, exporter] = socket_pair(SOCK_STREAM);
  const Event ready = detail::receive_ready(std::move(importer));
  EXPECT_FALSE(ready.done());
  write_line(exporter.get(), "");
  EXPECT_TRUE(ready.done());
}

TEST(ReadyPoint, TakesNoWork) {
  auto [importer, exporter] = socket_pair(SOCK_STREAM);
  const Event ready = detail::receive_ready(std::move(importer));
  const Stream remote(spi::Ref<spi::StreamState>::retain(ready.timeline())), mine(host_device());
  const auto resource = make_resource(host_device());
  Buffer a = resource->allocate(64, mine), b = resource->allocate(64, mine);
  mine.synchronize();
  EXPECT_ERROR(a.fill(std::byte{1}, remote), Errc::unsupported, "a point of another process takes no work");
  EXPECT_ERROR(a.copy_from(b, remote), Errc::unsupported, "a point of another process takes no work");
  EXPECT_FALSE(remote.done());
  write_line(exporter.get(), "");
  EXPECT_TRUE(ready.done());
  EXPECT_TRUE(remote.done()) << "the buffers would wait for ever for what was refused";
}

TEST(ReadyPoint, IsNotReachedByAHangUp) {
  auto [importer, exporter] = socket_pair(SOCK_STREAM);
  const Event ready = detail::receive_ready(std::move(importer));
  exporter.reset();
  EXPECT_EQ(ready.wait(std::chrono::nanoseconds{-1}), WaitStatus::lost);
  EXPECT_ERROR(ready.wait(), Errc::peer_gone, "ended before its work on it was complete");
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST(ReadyPoint, AHangUpAfterTheByteChangesNothing) {
  auto [importer, exporter] = socket_pair(SOCK_STREAM);
  const Event ready = detail::receive_ready(std::move(importer));
  write_line(exporter.get(), "");
  exporter.reset();
  EXPECT_TRUE(ready.done());
}

TEST(ReadyPoint, SeveralImportersSeeTheByte) {
  auto [importer, exporter] = socket_pair(SOCK_STREAM);
  const Event one = detail::receive_ready(importer.duplicate()), two = detail::receive_ready(std::move(importer));
  write_line(exporter.get(), "");
  EXPECT_TRUE(one.done());
  EXPECT_TRUE(two.done());
}

// It is a stream socket of the right family, so that only the first look at it tells.
TEST(ReadyPoint, AnUnconnectedSocketIsLost) {
  const Event ready = detail::receive_ready(spi::UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  EXPECT_EQ(ready.wait(std::chrono::nanoseconds{-1}), WaitStatus::lost);
  EXPECT_ERROR(ready.wait(), Errc::peer_gone, "");
  EXPECT_EQ(take_reports().size(), 1U);
}

TEST(ReadyPoint, NobodyHasToListen) {
  const Stream stream(host_device());
  Gate gate;
  gate.hold(stream);
  { const spi::UniqueFd importer = detail::send_ready(stream); }
  gate.open();
  stream.synchronize();
  EXPECT_TRUE(take_reports().empty()) << "an importer may close, or die";
}

// What an importer sent would be closed with the exporter's end, by a thread of the exporter's stream.
TEST(ReadyPoint, NothingCanBeSentToTheExporter) {
  const Stream stream(host_device());
  Gate gate;
  gate.hold(stream);
  const spi::UniqueFd importer = detail::send_ready(stream);
  EXPECT_EQ(::send(importer.get(), "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
  gate.open();
  stream.synchronize();
  char byte = 0;
  EXPECT_EQ(::recv(importer.get(), &byte, 1, 0), 1);
  EXPECT_EQ(::recv(importer.get(), &byte, 1, 0), 0);
}

}  // namespace
}  // namespace weir::test
