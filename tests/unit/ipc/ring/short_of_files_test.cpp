// SPDX-License-Identifier: Apache-2.0
// A ring that has no file for what it sends. When there are files again, it goes on, whoever waits for it to.

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "fixture.hpp"
#include "ipc/channel/few_files.hpp"
#include "sink.hpp"
#include "weir/channel.hpp"
#include "weir/host.hpp"
#include "weir/ring.hpp"

namespace weir::test {
namespace {

constexpr std::chrono::seconds limit{30};

TEST(RingShortOfFiles, GoesOnByItself) {
  const Stream stream(host_device());
  auto sockets = ipc::Channel::make_sockets(), others = ipc::Channel::make_sockets();
  ipc::Channel near(std::move(others.first)), far(std::move(others.second));
  const auto resource = host::make_shared_resource();
  near.send(resource->allocate(16, stream), stream, {}, limit);  // keeps the thread that attends to channels
  ipc::RingProducer ring(resource, {.slots = 2, .slot_bytes = 16});
  ipc::RingConsumer consumer(std::move(sockets.second));
  Buffer first = ring.acquire(stream, limit), second = ring.acquire(stream, limit);
  (void)take_reports();
  {
    const FewFiles one(1);  // for the connection, and none for the memory
    (void)ring.add_consumer(std::move(sockets.first));
    ring.publish(std::move(first), stream);
    ring.publish(std::move(second), stream);
    EXPECT_THROW((void)consumer.next(stream, std::chrono::milliseconds{50}), Error);
    const auto reports = take_reports();
    ASSERT_EQ(reports.size(), 1U) << "it tries again and again, and says so once";
    EXPECT_NE(reports[0].message.find("ulimit -n"), std::string::npos) << reports[0].message;
  }
  for (std::uint64_t i = 0; i < 2; ++i) EXPECT_EQ(consumer.next(stream, limit).sequence, i);
  EXPECT_TRUE(ring.drain(limit));
  (void)ring.acquire(stream, limit);
  EXPECT_TRUE(take_reports().empty());
}

}  // namespace
}  // namespace weir::test
