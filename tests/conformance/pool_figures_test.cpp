// SPDX-License-Identifier: Apache-2.0
// What a pool says: its counts once streams have ended, whose its free memory is, and why there is no pool.

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "pools.hpp"

namespace weir::test {
namespace {

class PoolFigures : public Pools {
 protected:
  static bool has(const std::string& dump, const std::string& text) { return dump.find(text) != std::string::npos; }
};
WEIR_FOR_EACH_POOL(PoolFigures);

TEST_P(PoolFigures, CountWhatEndedStreamsDid) {
  const auto pool = make();
  PoolStats before;
  std::string entry;
  {
    const Stream ending(device());
    for (int i = 0; i < 3; ++i) (void)pool->allocate(1000, ending);
    before = pool->pool_stats();
    entry = "{\"stream\":" + std::to_string(ending.id()) + ',';
    EXPECT_TRUE(has(pool->dump(), entry));
  }
  while (has(pool->dump(), entry)) std::this_thread::yield();  // the watchdog ends it
  EXPECT_EQ(before.reuses, 2U);
  EXPECT_EQ(pool->pool_stats().reuses, before.reuses);
  EXPECT_EQ(pool->pool_stats().resource.allocations, 3U);
}

TEST_P(PoolFigures, SayWhoMayHaveFreeMemory) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Gate gate;
  Buffer buffer = pool->allocate(page, stream);
  gate.hold(stream);
  buffer.fill(std::uint8_t{1}, stream);
  buffer.close();
  EXPECT_FALSE(pool->try_allocate(page, other).has_value());
  const std::string busy = pool->dump();
  EXPECT_TRUE(has(busy, "\"state\":\"free_on_stream\",\"stream\":" + std::to_string(stream.id()) + '}')) << busy;
  EXPECT_FALSE(has(busy, "\"state\":\"free\"")) << busy;
  gate.open();
  pool->trim(page);
  const std::string idle = pool->dump();
  EXPECT_TRUE(has(idle, "\"state\":\"free\"}")) << idle;
  EXPECT_FALSE(has(idle, "\"state\":\"free_on_stream\"")) << idle;
}

TEST_P(PoolFigures, SayWhyThereIsNoPool) {
  const auto shortage_of = [this](const PoolOptions& options) {
    try {
      (void)make(options);
    } catch (const OutOfMemory& error) {
      return error.shortage();
    }
    ADD_FAILURE() << "there is a pool of " << options.initial_bytes << " bytes";
    return Shortage{};
  };
  const std::size_t petabyte = std::size_t{1} << 50U;
  const Shortage none = shortage_of({.initial_bytes = petabyte});
  EXPECT_EQ(none.requested, petabyte);
  EXPECT_GT(none.limit, 0U) << "no pool has so much";
  EXPECT_LT(none.limit, petabyte);
  const Shortage limited = shortage_of({.initial_bytes = 8 * page, .limit = 4 * page});
  EXPECT_EQ(limited.requested, 8 * page);
  EXPECT_EQ(limited.limit, 4 * page);
  for (const Shortage& shortage : {none, limited}) {
    EXPECT_EQ(shortage.resource, "pool(" + resource->name() + ")");
    EXPECT_NE(shortage.device.find(device().id()), std::string::npos) << shortage.device;
  }
}

}  // namespace
}  // namespace weir::test
