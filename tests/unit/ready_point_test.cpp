// SPDX-License-Identifier: Apache-2.0
// The importer's end of a ready point, with what a stranger may have sent as its socket.
#include "ready_point.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "expect.hpp"
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
  write_line(exporter.get(), "");
  EXPECT_TRUE(ready.done());
}

// It is a stream socket of the right family, so that only the first look at it tells.
TEST(ReadyPoint, AnUnconnectedSocketIsLost) {
  const Event ready = detail::receive_ready(spi::UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
  EXPECT_EQ(ready.wait(std::chrono::nanoseconds{-1}), WaitStatus::lost);
  EXPECT_ERROR(ready.wait(), Errc::device_lost, "ready point: recv: Invalid argument");
  EXPECT_EQ(take_reports().size(), 1U);
}

}  // namespace
}  // namespace weir::test
