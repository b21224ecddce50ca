// SPDX-License-Identifier: Apache-2.0
// Rings: a frame whose work has not gone to the driver, published on a stream that can only wait for what the driver has.
#include "weir/device.hpp"

#if WEIR_HAS_CUDA

#include <utility>
#include <vector>

#include "ring_fixture.hpp"
#include "threads.hpp"
#include "waiting.hpp"
#include "weir/cuda.hpp"

namespace weir::test {
namespace {

std::vector<Memory> exportable_on_cuda() {
  auto all = memories();
  std::erase_if(all, [](const Memory& memory) { return !memory.exportable || memory.device.backend() != "cuda"; });
  return all;
}

class RingHeldBack : public Rings {};
WEIR_FOR_EACH(RingHeldBack, exportable_on_cuda(), MemoryName);

TEST_P(RingHeldBack, NobodyElseWaitsWithThePublisher) {
  ipc::RingProducer producer(resource, {.slots = 4, .slot_bytes = bytes});
  ipc::RingConsumer consumer = join_open(producer);
  publish(producer, 0, stream);
  Gate gate;
  const Stream held(device()), lent(device());
  (void)cuda::native(lent);
  Buffer slot = producer.acquire(held, limit);
  gate.hold(held);
  slot.copy_from(pattern(bytes, 1), held);
  const Waiting publishing([&] { EXPECT_EQ(producer.publish(std::move(slot), lent), 1U); });
  const OnLeaving opens([&] { gate.open(); });
  EXPECT_EQ(producer.stats().published, 1U);
  expect_frame(consumer.next(stream, limit), 0, 0);
  EXPECT_EQ(free_slots(producer, 3), 3U) << "the connection is attended to";
  gate.open();
  expect_frame(consumer.next(stream, limit), 1, 0);
}

}  // namespace
}  // namespace weir::test

#endif
