// SPDX-License-Identifier: Apache-2.0
// Eight threads on one resource: each on a stream of its own, and all on one.

#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>

#include "fixture.hpp"
#include "threads.hpp"

namespace weir::test {
namespace {

class Threads : public OnMemory {
 protected:
  static constexpr std::size_t count = 8;
  static constexpr std::uint32_t rounds = 12;

  /// Run `work(i)` on all threads at once; the first exception of each becomes a failure.
  template <class Work>
  static void on_all(Work work) {
    std::latch start(count);
    std::vector<std::string> thrown(count);
    std::vector<Thread> threads;
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        try {
          work(static_cast<std::uint32_t>(i));
        } catch (const std::exception& error) {
          thrown[i] = error.what();
        }
      });
    }
    for (Thread& thread : threads) thread.join();
    for (const std::string& message : thrown) EXPECT_EQ(message, "");
  }

  /// Allocate, write, copy, fill, read, close; counts wrong results.
  void play(std::uint32_t seed, const Stream& on, std::atomic<int>& wrong) const {
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::size_t size = 100 + (seed * 977 + round * 131) % 5000;
      Bytes model = pattern(size, seed * 1000 + round);
      Buffer source = resource->allocate(size, on);
      write(source, model, on);
      Buffer target = source.copy_to(on);
      source.close();
      target.fill(static_cast<std::uint8_t>(round), 7, 50, on);
      std::fill_n(model.begin() + 7, 50, std::byte(round));
      Bytes seen(size);
      target.copy_to(seen, on);
      const Event end = on.record();
      target.close();
      end.wait();
      wrong += seen != model ? 1 : 0;
    }
  }
};
WEIR_FOR_EACH_MEMORY(Threads);

TEST_P(Threads, OwnStreams) {
  std::atomic<int> wrong{0};
  on_all([&](std::uint32_t i) { play(i, Stream(device()), wrong); });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  EXPECT_EQ(resource->stats().allocations, 2U * count * rounds);
}

TEST_P(Threads, OneStream) {
  std::atomic<int> wrong{0};
  on_all([&](std::uint32_t i) { play(i, stream, wrong); });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(Threads, StreamsThatWaitForEachOther) {
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < count; ++i) streams.emplace_back(i % 4 == 2 ? host_device() : device());
  std::atomic<int> wrong{0};
  on_all([&](std::uint32_t i) {
    for (std::uint32_t round = 0; round < rounds; ++round) {
      streams[i].wait(streams[(i + 1 + round) % count].record());
      Buffer buffer = resource->allocate(64, streams[i]);
      buffer.fill(static_cast<std::uint8_t>(i), streams[i]);
      wrong += read(buffer, streams[i]) != repeat(64, static_cast<unsigned char>(i)) ? 1 : 0;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Threads, CountersAndTrimMeanwhile) {
  std::atomic<int> wrong{0};
  Buffer kept = filled(pattern(3000, 8));
  on_all([&](std::uint32_t i) {
    if (i % 4 != 0) return play(i, i % 4 == 1 ? stream : Stream(device()), wrong);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      resource->trim(round % 2 ? 0 : 4096);
      const ResourceStats now = resource->stats();
      wrong += now.live_buffers < 1 || now.in_use < 3000 || now.peak_in_use < 3000 || now.allocations < 1 ? 1 : 0;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_BYTES(read(kept, stream), pattern(3000, 8));
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  EXPECT_EQ(resource->stats().in_use, 3000U);
}

TEST_P(Threads, HostCallsAndEventsOnOneStream) {
  std::atomic<int> ran{0};
  on_all([&](std::uint32_t) {
    for (std::uint32_t round = 0; round < rounds; ++round) {
      std::atomic<bool> mine{false};
      stream.call([&] {
        mine = true;
        ++ran;
      });
      stream.record().wait();
      if (!mine) throw std::runtime_error("an event was done before the call before it");
    }
  });
  EXPECT_EQ(ran, static_cast<int>(count * rounds));
}

TEST_P(Threads, SharesOfOneBuffer) {
  Buffer buffer = filled(pattern(4096, 9));
  std::atomic<int> wrong{0};
  on_all([&](std::uint32_t) {
    const Stream own(device());
    for (std::uint32_t round = 0; round < rounds; ++round) {
      Buffer share = buffer.share();
      Buffer slice = share.slice(round, 1000);
      share.close();
      wrong += read(slice, own) != part(pattern(4096, 9), round, 1000) ? 1 : 0;
      slice.close(own);
    }
  });
  EXPECT_EQ(wrong, 0);
  buffer.close();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

}  // namespace
}  // namespace weir::test
