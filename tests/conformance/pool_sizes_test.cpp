// SPDX-License-Identifier: Apache-2.0
// Threads that churn through sizes just below, at, and just above powers of two, over pools and over adaptors on top of
// them, which ask for some bytes more and move the beginnings of live buffers: memory moves page by page beneath all of
// that, and nobody's bytes change.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "pools.hpp"
#include "threads.hpp"
#include "weir/adaptors/aligned.hpp"
#include "weir/adaptors/debug.hpp"

namespace weir::test {
namespace {

class PoolSizes : public Pools {
 protected:
  /// 256 bytes to 4 MiB and a little, rather small than large. Every other one is a power of two, which adaptors add
  /// to, or lacks what guards add.
  static std::size_t some_bytes(std::mt19937& random) {
    constexpr int besides[] = {0, 0, 0, -512, -512, -256, -1, 1, 256, 512, 768};
    const std::size_t power = std::size_t{1024} << std::min(random() % 13, random() % 13);
    return random() % 8 == 0 ? 256 : power + static_cast<std::size_t>(besides[random() % std::size(besides)]);
  }

  /// Each thread fills buffers on two streams of its own, and looks at each before it closes it on either.
  void churn(const ResourcePtr& on) const {
    std::vector<Thread> threads;
    for (std::uint32_t t = 1; t <= 4; ++t) {
      threads.emplace_back([&, t] {
        const Stream streams[] = {Stream(device()), Stream(device())};
        std::mt19937 random(t);
        struct Live {
          Buffer buffer;
          std::uint8_t value;
          std::size_t home;
        };
        std::vector<Live> live;
        const auto close_one = [&] {
          std::swap(live[random() % live.size()], live.back());
          Live last = std::move(live.back());
          live.pop_back();
          const Stream& home = streams[last.home];
          EXPECT_BYTES(read(last.buffer, home), repeat(last.buffer.size(), last.value));
          random() % 2 == 0 ? last.buffer.close() : last.buffer.close(streams[1 - last.home]);
        };
        for (std::uint32_t step = 0; step < 300 && !HasFailure(); ++step) {
          if (live.size() == 12 || (!live.empty() && random() % 3 == 0)) close_one();
          const std::size_t home = random() % 2;
          const auto value = static_cast<std::uint8_t>(64 * t + step % 64);
          Buffer buffer = on->allocate(some_bytes(random), streams[home]);
          buffer.fill(value, streams[home]);
          live.push_back({std::move(buffer), value, home});
        }
        while (!live.empty()) close_one();
        for (const Stream& each : streams) each.synchronize();
      });
    }
  }
  /// Until pages have moved, which hangs on how the threads run.
  void churn(const ResourcePtr& on, const PoolPtr& pool) const {
    constexpr int most = 50;
    int rounds = 0;
    do churn(on);
    while (paged() && pool->pool_stats().moved == 0 && ++rounds < most && !HasFailure());
  }
};
WEIR_FOR_EACH_POOL(PoolSizes);

TEST_P(PoolSizes, OfThePoolAlone) {
  const auto pool = make();
  churn(pool, pool);
  pool->trim(0);
  EXPECT_EQ(pool->stats().reserved, 0U);
  EXPECT_EQ(pool->pool_stats().moved > 0, paged());
}

// Two guards of 256 bytes: 512 more than the caller asks for, and buffers that begin behind the first.
TEST_P(PoolSizes, WithGuards) {
  const auto pool = make();
  const auto checked = make_debug(pool, {.quarantine_bytes = 2 * page});
  churn(checked, pool);
  checked->trim(0);
  EXPECT_EQ(checked->violations(), 0U);
  EXPECT_EQ(pool->stats().in_use, 0U);
  EXPECT_EQ(pool->stats().reserved, 0U);
  EXPECT_EQ(pool->pool_stats().moved > 0, paged());
}

// What begins behind a live buffer that ends with its page begins at the next one, wherever that buffer is said to
// begin.
TEST_P(PoolSizes, PagesThatGuardedBuffersFill) {
  for (const std::size_t bytes : {page / 64, page / 2, page, 2 * page}) {
    for (const std::size_t guards : {0U, 512U, 1024U}) {
      SCOPED_TRACE(std::to_string(bytes) + " - " + std::to_string(guards));
      const auto pool = make();
      const auto checked = make_debug(pool, {.quarantine_bytes = 0});
      std::vector<Thread> threads;
      for (std::uint8_t t = 1; t <= 2; ++t) {
        threads.emplace_back([&, t] {
          const Stream own(device());
          std::vector<Buffer> live;
          for (std::size_t total = 0; total < 3 * page; total += bytes) {
            live.push_back(checked->allocate(bytes - guards, own));
            live.back().fill(t, own);
          }
          for (const Buffer& buffer : live) EXPECT_BYTES(read(buffer, own), repeat(buffer.size(), t));
        });
      }
      for (Thread& thread : threads) thread.join();
      checked->trim(0);
      EXPECT_EQ(checked->violations(), 0U);
      EXPECT_EQ(pool->stats().reserved, 0U);
    }
  }
}

TEST_P(PoolSizes, WithGuardsAndAlignment) {
  const auto pool = make();
  const auto checked = make_debug(make_aligned(pool, 4096, 1000), {.quarantine_bytes = 0});
  churn(checked);
  checked->trim(0);
  EXPECT_EQ(checked->violations(), 0U);
  EXPECT_EQ(pool->stats().reserved, 0U);
}

}  // namespace
}  // namespace weir::test
