// SPDX-License-Identifier: Apache-2.0
// The last handle of a pool goes while another thread uses a stream that memory of the pool waits for.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>

#include "stream/fake_stream.hpp"
#include "threads.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"
#include "weir/pool.hpp"

namespace weir::pool {
namespace {

// That thread may need a lock that the one that gives up the pool has, such as Python's.
TEST(LastHandle, DoesNotWaitForAThreadInADriver) {
  using test::FakeStream;
  auto* const fake = new FakeStream;
  const Stream stream(spi::Ref<spi::StreamState>::adopt(fake)), home(host_device());
  PoolPtr pool = make_pool(make_resource(host_device()));
  Buffer buffer = pool->allocate(64, home);
  fake->put(FakeStream::fill());
  buffer.use_on(stream);
  buffer.close();
  fake->put(FakeStream::fill());
  std::promise<void> inside, go;
  std::atomic<bool> comes_first{true};
  fake->behaviour.on_mark = [&] {
    if (!comes_first.exchange(false)) return;
    inside.set_value();
    go.get_future().wait();
  };
  test::Thread marks([&] { EXPECT_EQ(stream.synchronize(std::chrono::nanoseconds{0}), WaitStatus::timeout); });
  inside.get_future().wait();
  pool.reset();  // the watchdog ends it
  go.set_value();
  marks.join();
  fake->finish(2);
}

}  // namespace
}  // namespace weir::pool
