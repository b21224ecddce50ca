// SPDX-License-Identifier: Apache-2.0
// A stream that was lost stays lost: told once, named by every call, waited for by nobody in vain, and its handles can
// still be closed. Here it waited for a process that ended; drivers that fail are the subject of other suites.

#include <cstdint>
#include <future>
#include <thread>

#include "doomed.hpp"
#include "fixture.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

class LostStreams : public OnDevice {
 protected:
  /// Make `stream` wait for a point, do nothing but be held.
  void hold() { stream.wait(point_.event()); }
  /// End it and wait until that was told, once each: the point, the stream that carries it, `waiting` others.
  void lose(std::size_t waiting = 1) {
    point_.fail();
    EXPECT_EQ(await_reports(2 + waiting).size(), 2 + waiting);
  }

 private:
  DoomedPoint point_;
};
WEIR_FOR_EACH_DEVICE(LostStreams);

TEST_P(LostStreams, SynchronizeThrowsAndEventsSayLost) {
  hold();
  const Event event = stream.record();
  EXPECT_EQ(stream.synchronize(1ms), WaitStatus::timeout);
  EXPECT_EQ(event.wait(1ms), WaitStatus::timeout);
  lose();
  for (const auto timeout : {0ns, std::chrono::nanoseconds(1ms), -1ns, std::chrono::nanoseconds::max()}) {
    EXPECT_EQ(event.wait(timeout), WaitStatus::lost);
    EXPECT_ERROR(stream.synchronize(timeout), Errc::peer_gone, "is lost");
  }
  EXPECT_ERROR(stream.synchronize(), Errc::peer_gone, device().id());
  EXPECT_ERROR(event.wait(), Errc::peer_gone, device().id());
  EXPECT_FALSE(event.done());
}

// The waits begin before the end as often as not; their outcome is the same.
TEST_P(LostStreams, WaitsThatAreUnderWayEndTheSameWay) {
  hold();
  const Event event = stream.record();
  auto bounded = std::async(std::launch::async, [&] { return stream.synchronize(1h); });
  auto endless = std::async(std::launch::async, [&] { stream.synchronize(); });
  auto waiting = std::async(std::launch::async, [&] { return event.wait(-1ns); });
  EXPECT_EQ(waiting.wait_for(2ms), std::future_status::timeout);
  lose();
  EXPECT_EQ(waiting.get(), WaitStatus::lost);
  EXPECT_ERROR(bounded.get(), Errc::peer_gone, "is lost");
  EXPECT_ERROR(endless.get(), Errc::peer_gone, "is lost");
}

TEST_P(LostStreams, EveryCallSaysSo) {
  const ResourcePtr resource = make_resource(device());
  Buffer buffer = resource->allocate(64, stream);
  Bytes bytes(64);
  stream.synchronize();  // the memory is there for other streams
  hold();
  const Event event = stream.record();
  lose();
  EXPECT_ERROR(stream.record(), Errc::peer_gone, "is lost");
  EXPECT_ERROR(stream.done(), Errc::peer_gone, "is lost");
  EXPECT_ERROR(stream.call([] {}), Errc::peer_gone, "is lost");
  EXPECT_ERROR(buffer.fill(std::uint8_t{1}, stream), Errc::peer_gone, "is lost");
  EXPECT_ERROR(buffer.copy_to(stream), Errc::peer_gone, "is lost");
  const Stream other(device());
  EXPECT_ERROR(other.wait(event), Errc::peer_gone, "is lost");
  buffer.fill(std::uint8_t{2}, other);  // the device and the memory go on
  EXPECT_BYTES(read(buffer, other), repeat(64, 2));
}

TEST_P(LostStreams, WhatWasHeldNeverRunsAndEverythingIsGivenBack) {
  const ResourcePtr resource = make_resource(device());
  bool ran = false;
  std::weak_ptr<int> observed;
  {
    Buffer buffer = resource->allocate(64, stream);
    hold();
    auto owned = std::make_shared<int>(1);
    observed = owned;
    stream.call([&ran, moved = std::move(owned)] { ran = *moved == 1; });
    buffer.fill(std::uint8_t{1}, stream);
    const Buffer twin = buffer.copy_to(stream);
    buffer.close(stream);
    lose();
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
  while (!observed.expired()) std::this_thread::yield();  // the watchdog ends it otherwise
}

TEST_P(LostStreams, StreamsThatWaitForItAreLostWithIt) {
  hold();
  const Stream second(device());
  const Stream third(host_device());
  second.wait(stream.record());
  third.wait(second.record());
  const Event end = third.record();
  lose(3);
  EXPECT_EQ(end.wait(-1ns), WaitStatus::lost);
  EXPECT_ERROR(second.synchronize(0ns), Errc::peer_gone, "is lost");
  EXPECT_ERROR(third.synchronize(0ns), Errc::peer_gone, "is lost");
}

}  // namespace
}  // namespace weir::test
