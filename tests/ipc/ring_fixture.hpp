// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the suites of rings share: frames whose bytes tell their number.

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "fixture.hpp"
#include "time_limits.hpp"
#include "weir/ring.hpp"

namespace weir::test {

class Rings : public OnMemory {
 protected:
  static inline const std::chrono::seconds limit = answer_limit();
  static constexpr std::size_t bytes = 600;

  static Bytes payload(std::size_t size) { return pattern(size, 77); }

  static ipc::RingConsumer join(ipc::RingProducer& producer, const ipc::RingConsumerOptions& options = {}) {
    auto [mine, theirs] = ipc::Channel::make_sockets();
    (void)producer.add_consumer(std::move(mine));
    return ipc::RingConsumer(std::move(theirs), options);
  }
  /// The same, with nothing sent ahead.
  [[nodiscard]] ipc::RingConsumer join_open(ipc::RingProducer& producer,
                                            const ipc::RingConsumerOptions& options = {}) const {
    ipc::RingConsumer consumer = join(producer, options);
    consumer.open(stream, limit);
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (producer.stats().consumers.back().held != 0 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    return consumer;
  }
  /// Publish frame `i`.
  static void publish(ipc::RingProducer& producer, std::uint32_t i, const Stream& on,
                      std::chrono::milliseconds timeout = limit) {
    Buffer slot = producer.acquire(on, timeout);
    slot.copy_from(pattern(bytes, i), on);
    EXPECT_EQ(producer.publish(std::move(slot), on), i);
  }
  void expect_frame(ipc::Frame frame, std::uint32_t i, std::uint64_t missed) const {
    EXPECT_EQ(frame.sequence, i);
    EXPECT_EQ(frame.missed, missed);
    EXPECT_BYTES(read(frame.buffer, stream), pattern(bytes, i));
  }
  /// Return the number of free slots once it is `wanted`. What consumers give back comes by itself.
  static std::size_t free_slots(const ipc::RingProducer& producer, std::size_t wanted) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (producer.stats().free != wanted && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return producer.stats().free;
  }
  /// Return what `next` throws once everything that was sent has been received.
  [[nodiscard]] std::error_condition error_at_end(ipc::RingConsumer& consumer) const {
    try {
      for (;;) (void)consumer.next(stream, limit);
    } catch (const Error& error) {
      return error.code().default_error_condition();
    }
  }
};

}  // namespace weir::test
