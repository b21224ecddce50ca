// SPDX-License-Identifier: Apache-2.0
// What a client waits for that gets a published tensor.

#include <gtest/gtest.h>

#include <chrono>

#include "folder.hpp"
#include "stream/fake_stream.hpp"
#include "time_limits.hpp"
#include "weir/client.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

// Only the thread that publishes may have an application's stream marked. The one that serves cannot.
TEST(PublishedTensors, ComeAfterWorkOfTheApplicationOnTheirAllocationStream) {
  const auto limit = answer_limit();
  const Folder folder;
  auto* const fake = new FakeStream;
  fake->behaviour.foreign = true;
  const Stream applications(spi::Ref<spi::StreamState>::adopt(fake)), other(host_device()), reading(host_device());
  // Its buffer has one owner: the end of another one would have the stream marked.
  const Tensor tensor(host::make_shared_resource()->allocate(64, applications), Layout::compact(u8, {64}));
  ipc::Server server(folder / "server");
  server.publish("a", tensor, other);
  ipc::Client client(server.path(), limit);
  const Tensor got = client.get("a", reading, limit);
  EXPECT_EQ(reading.synchronize(std::chrono::milliseconds{50}), WaitStatus::timeout);
  fake->finish(fake->issued());
  reading.synchronize();
  fake->finish(1000);  // what its end waits for
}

}  // namespace
}  // namespace weir::test
