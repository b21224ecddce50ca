// SPDX-License-Identifier: Apache-2.0
// What the contract says of streams and memory, on an application's device: beside the host, weir's own Vulkan device
// and the application's own submits.
#include <atomic>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "app.hpp"
#include "bytes.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "sink.hpp"

namespace weir::vulkan::test {

using namespace std::chrono_literals;
using weir::test::Bytes;
using weir::test::Gate;
using weir::test::pattern;
using weir::test::read;
using weir::test::repeat;

class AdoptedStreams : public OnApp {
 protected:
  static constexpr std::size_t size = 5000;
  /// weir's own devices, which see the same hardware another time.
  static std::vector<Device> others() { return {host_device(), vulkan::device(0)}; }
};

TEST_F(AdoptedStreams, EventsGoBothWays) {
  for (const Device& theirs : others()) {
    const Stream here(device()), there(theirs);
    const auto resource = make_device_resource(device());
    Buffer buffer = filled(resource, repeat(size, 1), here);
    Gate gate;
    gate.hold(there);
    here.wait(there.record());
    buffer.fill(std::uint8_t{2}, here);
    const Event filled_again = here.record();
    there.wait(filled_again);
    EXPECT_EQ(here.synchronize(50ms), WaitStatus::timeout) << theirs.id();
    EXPECT_FALSE(there.done()) << theirs.id();
    gate.open();
    there.synchronize();
    EXPECT_TRUE(filled_again.done()) << theirs.id();
    EXPECT_BYTES(read(buffer, here), repeat(size, 2));
  }
}

TEST_F(AdoptedStreams, CopiesBetweenDevicesOnStreamsOfEither) {
  for (const Device& theirs : others()) {
    for (const KindInfo& kind : device().kinds()) {
      const Stream here(device()), there(theirs);
      const auto mine = make_resource(device(), kind.kind), other = make_resource(theirs);
      Buffer a = filled(mine, pattern(size, 1), here);
      Buffer b = other->allocate(size, there);
      b.copy_from(a, there);
      a.copy_from(b, 10, 20, 1000, there);
      here.wait(there.record());
      b.copy_from(a, 20, 0, 1000, here);
      Bytes model = pattern(size, 1);
      const Bytes moved = weir::test::part(model, 10, 1000);
      std::copy(moved.begin(), moved.end(), model.begin());
      EXPECT_BYTES(read(b, here), model) << theirs.id() << ' ' << to_string(kind.kind);
    }
  }
}

TEST_F(AdoptedStreams, ClosedMemoryWaitsForSubmitsOfTheApplication) {
  const Stream stream{device()};
  const auto resource = make_device_resource(device());
  VkSemaphore theirs = app->make_timeline();
  {
    Buffer buffer = filled(resource, pattern(size, 2), stream);
    Bytes seen(size);
    buffer.fill(std::uint8_t{7}, 0, 1, stream);
    const auto ours = native(stream);
    with_queue(stream, [&](VkQueue_T*) { app->submit(ours.semaphore, ours.value, theirs, 1); });
    vulkan::wait(stream, theirs, 1);
    buffer.use_on(stream);
    buffer.copy_to(seen, stream);
    buffer.close();
    for (int i = 0; i < 4; ++i) resource->allocate(size, stream).fill(std::uint8_t{0xff}, stream);
    stream.synchronize();
    Bytes model = pattern(size, 2);
    model[0] = std::byte{7};
    EXPECT_BYTES(seen, model);
  }
  resource->trim(0);
  EXPECT_EQ(resource->stats().reserved, 0U);
  app->wait_idle();
  app->destroy(theirs);
}

TEST_F(AdoptedStreams, ReuseComesAfterPendingUsesElsewhere) {
  for (const Device& theirs : others()) {
    const Stream here(device()), there(theirs);
    const auto resource = make_device_resource(device());
    Buffer source = filled(resource, pattern(size, 3), here);
    Bytes seen(size);
    Gate gate;
    gate.hold(there);
    source.copy_to(seen, there);
    source.close();
    for (int i = 0; i < 4; ++i) resource->allocate(size, here).fill(std::uint8_t{0xff}, here);
    here.synchronize();
    gate.open();
    there.synchronize();
    EXPECT_BYTES(seen, pattern(size, 3)) << theirs.id();
  }
}

// A thread of weir that waits for the application's lock of a queue does not hold weir's own lock of it meanwhile.
TEST_F(AdoptedStreams, GiveTheirQueueToAThreadThatHasTheLockAlready) {
  give_back();
  std::recursive_mutex mutex;
  std::promise<void> waits;
  std::atomic<bool> held = false;
  auto options = app->options();
  options.queues[0].lock = [&, main = std::this_thread::get_id()] {
    if (std::this_thread::get_id() != main && held.exchange(false)) waits.set_value();
    mutex.lock();
  };
  options.queues[0].unlock = [&] { mutex.unlock(); };
  const Device adopted = adopt(options);
  {
    const Stream stream(adopted), other(adopted);
    Buffer buffer = filled(make_device_resource(adopted), pattern(size, 5), stream);
    Bytes seen;
    VkQueue given = VK_NULL_HANDLE;
    std::future<void> reads;
    std::unique_lock lock(mutex);
    held = true;
    reads = std::async(std::launch::async, [&] { seen = read(buffer, stream); });
    waits.get_future().wait();
    with_queue(other, [&](VkQueue_T* queue) { given = queue; });
    EXPECT_EQ(given, app->queue);
    lock.unlock();
    reads.get();
    EXPECT_BYTES(seen, pattern(size, 5));
  }
  vulkan::release(adopted);
}

TEST_F(AdoptedStreams, ThrowingHostFunctionsAreReported) {
  const Stream stream{device()};
  Buffer buffer = filled(make_readback_resource(device()), repeat(64, 1), stream);
  stream.call([] { throw std::runtime_error("spilt milk"); });
  buffer.fill(std::uint8_t{2}, stream);
  EXPECT_BYTES(read(buffer, stream), repeat(64, 2));
  EXPECT_EQ(weir::test::take_reports().size(), 1U);
}

TEST_F(AdoptedStreams, ReleaseWaitsForWhatIsHeldBack) {
  Gate gate;
  Bytes seen(size);
  {
    const Stream stream{device()};
    Buffer buffer = filled(make_device_resource(device()), pattern(size, 4), stream);
    gate.hold(stream);
    buffer.copy_to(seen, stream);
  }
  auto given_back = std::async(std::launch::async, [this] { give_back(); });
  EXPECT_EQ(given_back.wait_for(10ms), std::future_status::timeout);
  gate.open();
  given_back.get();
  EXPECT_BYTES(seen, pattern(size, 4));
}

}  // namespace weir::vulkan::test
