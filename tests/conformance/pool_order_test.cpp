// SPDX-License-Identifier: Apache-2.0
// No range of a pool is handed out before its last use is over, or ordered: uses on other streams, streams
// that end meanwhile, memory that moves. What would be handed out too early is overwritten, and the bytes
// show it.

#include <chrono>
#include <future>

#include "pools.hpp"

namespace weir::test {
namespace {

class PoolOrder : public Pools {
 protected:
  /// All of the pool's memory, full of 1.
  [[nodiscard]] Buffer first_of(const PoolPtr& pool, const Stream& home) const {
    Buffer buffer = pool->allocate(page, home);
    buffer.fill(std::uint8_t{1}, home);
    home.synchronize();
    return buffer;
  }
  /// Expect that all of the pool's memory is to be had on `user` now, and overwrite it.
  void overwrite(const PoolPtr& pool, const Stream& user) const {
    auto next = pool->try_allocate(page, user);
    ASSERT_TRUE(next.has_value());
    next->fill(std::uint8_t{2}, user);
    user.synchronize();
  }
  const Bytes ones = Bytes(page, std::byte{1});
};
WEIR_FOR_EACH_POOL(PoolOrder);

TEST_P(PoolOrder, AUseOnAnEndedStreamComesFirst) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Gate gate;
  Buffer seen;
  Buffer first = first_of(pool, stream);
  Event end;
  {
    const Stream ending(device());
    gate.hold(ending);
    seen = snapshot(first, ending);
    end = ending.record();
  }
  first.close();
  EXPECT_FALSE(pool->try_allocate(page, stream).has_value());
  EXPECT_FALSE(pool->try_allocate(page, other).has_value());
  gate.open();
  end.wait();
  overwrite(pool, stream);
  EXPECT_BYTES(bytes_of(seen), ones);
}

TEST_P(PoolOrder, AUseElsewhereOutlastsTheStreamOfTheAllocation) {
  const auto pool = make(tight(ReusePolicy::wait_rather_than_fail));
  Gate gate;
  Buffer seen;
  {
    const Stream ending(device());
    Buffer first = first_of(pool, ending);
    gate.hold(other);
    seen = snapshot(first, other);
  }
  EXPECT_EQ(pool->pool_stats().streams, 0U) << "the range waits without its stream";
  EXPECT_FALSE(pool->try_allocate(page, stream).has_value()) << "and is in no stream's order";
  EXPECT_FALSE(pool->try_allocate(page, other).has_value());
  gate.open();
  other.synchronize();
  overwrite(pool, stream);
  EXPECT_BYTES(bytes_of(seen), ones);
}

TEST_P(PoolOrder, TrimWaitsForAUseElsewhere) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Gate gate;
  gate.hold(other);
  Buffer first = first_of(pool, stream);
  const Buffer seen = snapshot(first, other);
  first.close();
  auto trimmed = std::async(std::launch::async, [&] { return pool->trim(0); });
  EXPECT_EQ(trimmed.wait_for(std::chrono::milliseconds{20}), std::future_status::timeout);
  gate.open();
  EXPECT_EQ(trimmed.get(), page);
  EXPECT_EQ(pool->stats().reserved, 0U);
  other.synchronize();
  EXPECT_BYTES(bytes_of(seen), ones);
}

// The pool below learns of that stream only by the memory that comes back.
TEST_P(PoolOrder, TrimWaitsForAnEndedStreamOfAnEndedPool) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Gate gate;
  Buffer seen;
  {
    const auto upper = make_pool(pool, {.segment_bytes = page});
    const Stream ending(device());
    Buffer first = first_of(upper, ending);
    gate.hold(ending);
    seen = snapshot(first, ending);
  }
  EXPECT_EQ(pool->stats().in_use, 0U);
  EXPECT_FALSE(pool->try_allocate(page, stream).has_value());
  auto trimmed = std::async(std::launch::async, [&] { return pool->trim(0); });
  EXPECT_EQ(trimmed.wait_for(std::chrono::milliseconds{20}), std::future_status::timeout);
  gate.open();
  EXPECT_EQ(trimmed.get(), page);
  EXPECT_EQ(pool->stats().reserved, 0U);
  EXPECT_BYTES(bytes_of(seen), ones);
}

TEST_P(PoolOrder, BothTheStreamAndAUseElsewhereMayEndBusy) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Gate at_home, elsewhere;
  Buffer seen_at_home, seen_elsewhere;
  Event end_at_home, end_elsewhere;
  {
    const Stream home(device()), user(device());
    Buffer first = first_of(pool, home);
    at_home.hold(home);
    elsewhere.hold(user);
    seen_at_home = snapshot(first, home);
    seen_elsewhere = snapshot(first, user);
    end_at_home = home.record();
    end_elsewhere = user.record();
  }
  elsewhere.open();
  end_elsewhere.wait();
  EXPECT_FALSE(pool->try_allocate(page, stream).has_value()) << "its own stream is not done";
  at_home.open();
  end_at_home.wait();
  pool->trim(page);  // the last count of a stream that ends is dropped on another thread
  overwrite(pool, stream);
  EXPECT_BYTES(bytes_of(seen_at_home), ones);
  EXPECT_BYTES(bytes_of(seen_elsewhere), ones);
}

TEST_P(PoolOrder, AllOfSeveralUsesComeFirst) {
  const auto pool = make(tight(ReusePolicy::wait_rather_than_fail));
  Buffer first = first_of(pool, stream);
  const Stream more[] = {Stream(device()), Stream(device()), Stream(host_device())};
  Gate gates[3];
  Buffer seen;
  for (int i = 0; i < 3; ++i) {
    gates[i].hold(more[i]);
    first.use_on(more[i]);
  }
  seen = snapshot(first, more[1]);
  first.close();
  for (const int i : {0, 2, 1}) {
    EXPECT_FALSE(pool->try_allocate(page, stream).has_value());
    gates[i].open();
    more[i].synchronize();
  }
  overwrite(pool, other);
  EXPECT_BYTES(bytes_of(seen), ones);
}

TEST_P(PoolOrder, TheStreamGivenToCloseCounts) {
  const auto pool = make(tight(ReusePolicy::wait_rather_than_fail));
  Gate gate;
  Buffer first = first_of(pool, stream);
  gate.hold(other);  // what comes behind is the application's
  first.close(other);
  EXPECT_FALSE(pool->try_allocate(page, stream).has_value());
  EXPECT_FALSE(pool->try_allocate(page, other).has_value()) << "the range is its own stream's";
  gate.open();
  other.synchronize();
  overwrite(pool, stream);
}

TEST_P(PoolOrder, AStreamThatTakesOverWaitsForItsTurnAndIsWaitedFor) {
  const auto pool = make(tight(ReusePolicy::wait_rather_than_grow));
  const Stream third(device());
  Gate gate;
  Buffer seen_first, seen_second;
  Buffer first = first_of(pool, stream);
  gate.hold(stream);
  seen_first = snapshot(first, stream);
  first.close();
  Buffer second = pool->allocate(page, other);
  second.fill(std::uint8_t{2}, other);
  seen_second = snapshot(second, other);
  second.close();
  Buffer last = pool->allocate(page, third);
  last.fill(std::uint8_t{3}, third);
  EXPECT_FALSE(third.done());
  EXPECT_EQ(pool->pool_stats().waits, 2U);
  gate.open();
  EXPECT_BYTES(read(last, third), Bytes(page, std::byte{3}));
  stream.synchronize();
  other.synchronize();
  EXPECT_BYTES(bytes_of(seen_first), ones);
  EXPECT_BYTES(bytes_of(seen_second), Bytes(page, std::byte{2}));
}

TEST_P(PoolOrder, ThePolicyHoldsFromWhenItIsSet) {
  const auto pool = make(tight(ReusePolicy::passed_only));
  Gate gate;
  Buffer seen;
  Buffer first = first_of(pool, stream);
  gate.hold(stream);
  seen = snapshot(first, stream);
  first.close();
  EXPECT_FALSE(pool->try_allocate(page, other).has_value());
  pool->set_reuse_policy(ReusePolicy::wait_rather_than_fail);
  Buffer second = pool->allocate(page, other);
  EXPECT_EQ(pool->pool_stats().waits, 1U);
  second.fill(std::uint8_t{2}, other);
  EXPECT_FALSE(other.done());
  second.close();
  pool->set_reuse_policy(ReusePolicy::passed_only);
  EXPECT_FALSE(pool->try_allocate(page, stream).has_value()) << "the other one's now, and not over";
  gate.open();
  other.synchronize();
  stream.synchronize();
  EXPECT_BYTES(bytes_of(seen), ones);
  EXPECT_EQ(pool->pool_stats().waits, 1U);
}

// Growth takes idle memory from elsewhere: segments go back to upstream, pages to other addresses.
TEST_P(PoolOrder, GrowthTakesNothingThatIsInUse) {
  const auto pool = make({.segment_bytes = page, .reuse = ReusePolicy::passed_only});
  Gate gate;
  Buffer seen;
  Buffer first = first_of(pool, stream);
  gate.hold(stream);
  seen = snapshot(first, stream);
  first.close();
  Buffer second = pool->allocate(4 * page, other);
  second.fill(std::uint8_t{2}, other);
  other.synchronize();
  EXPECT_EQ(pool->stats().reserved, 5 * page);
  EXPECT_EQ(pool->pool_stats().moved + pool->pool_stats().given_back, 0U);
  gate.open();
  stream.synchronize();
  EXPECT_BYTES(bytes_of(seen), ones);
  Buffer third = pool->allocate(12 * page, other);
  EXPECT_EQ(pool->pool_stats().moved, paged() ? 1U : 0U);
  EXPECT_EQ(pool->pool_stats().given_back, paged() ? 0U : 1U);
  EXPECT_EQ(pool->stats().reserved, 16 * page);
  third.fill(std::uint8_t{3}, other);
  EXPECT_BYTES(read(second, other), Bytes(4 * page, std::byte{2}));
}

class PoolsOfDevices : public OnDevice {};
WEIR_FOR_EACH_DEVICE(PoolsOfDevices);

TEST_P(PoolsOfDevices, StandOnWhatCanBePagedOrOnTheDefaultKind) {
  const auto kinds = device().kinds();
  const auto can = std::find_if(kinds.begin(), kinds.end(), [](const KindInfo& info) { return info.paged; });
  const auto pool = make_pool(device()), unpaged = make_pool(device(), {.limit = 1 << 20, .paged = false});
  EXPECT_EQ(pool->kind(), can != kinds.end() ? can->kind : device().default_kind());
  EXPECT_EQ(unpaged->kind(), device().default_kind());
  EXPECT_EQ(pool->name(), "pool(" + make_resource(device(), pool->kind())->name() + ")");
  Buffer buffer = pool->allocate(5000, stream);
  write(buffer, pattern(5000, 1), stream);
  EXPECT_BYTES(read(buffer, stream), pattern(5000, 1));
  EXPECT_FALSE(unpaged->try_allocate(2 << 20, stream).has_value()) << "beyond the limit";
}

}  // namespace
}  // namespace weir::test
