// SPDX-License-Identifier: Apache-2.0
// A pool that has no more: what it says, and functions that spill for it.

#include <chrono>
#include <string>
#include <utility>

#include "pools.hpp"
#include "threads.hpp"
#include "weir/adaptors/failure_callback.hpp"
#include "weir/adaptors/limiting.hpp"

namespace weir::test {
namespace {

class PoolExhaustion : public Pools {
 protected:
  /// A pool that can have four pages.
  [[nodiscard]] PoolPtr four_pages() const { return make({.limit = 4 * page, .segment_bytes = page}); }
  /// Buffers of a page each that hold their number.
  [[nodiscard]] std::vector<Buffer> fill_up(MemoryResource& of) const {
    std::vector<Buffer> buffers;
    for (std::uint8_t i = 0; i < 4; ++i) {
      buffers.push_back(of.allocate(page, stream));
      buffers.back().fill(i, stream);
    }
    return buffers;
  }
};
WEIR_FOR_EACH_POOL(PoolExhaustion);

TEST_P(PoolExhaustion, ALimitIsKeptAndNamed) {
  const auto pool = make({.limit = 3 * page, .segment_bytes = 2 * page});
  Buffer first = pool->allocate(2 * page, stream);
  Buffer second = pool->allocate(page, stream);  // exactly what is left, not a whole segment
  try {
    (void)pool->allocate(page, stream);
    ADD_FAILURE() << "beyond the limit";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().limit, 3 * page);
    EXPECT_EQ(error.shortage().in_use, 3 * page);
    EXPECT_EQ(error.shortage().reserved, 3 * page);
    EXPECT_EQ(error.shortage().requested, page);
    EXPECT_EQ(error.shortage().resource, pool->name());
  }
  pool->set_limit(4 * page);
  EXPECT_TRUE(pool->try_allocate(page, stream).has_value());
}

TEST_P(PoolExhaustion, SaysWhatWasAskedForAndWhatThereIs) {
  const auto pool = four_pages();
  std::vector<Buffer> buffers = fill_up(*pool);
  stream.synchronize();
  buffers[1].close();
  buffers[3] = pool->allocate(page / 2, stream);
  stream.synchronize();
  try {
    (void)pool->allocate(3 * page + 5, stream, 4096);
    FAIL() << "there is less";
  } catch (const OutOfMemory& error) {
    const Shortage& shortage = error.shortage();
    EXPECT_EQ(shortage.requested, 3 * page + 5);
    EXPECT_EQ(shortage.alignment, 4096U);
    EXPECT_EQ(shortage.in_use, 2 * page + page / 2);
    EXPECT_EQ(shortage.reserved, pool->stats().reserved);
    EXPECT_EQ(shortage.limit, 4 * page);
    EXPECT_EQ(shortage.largest_free, pool->pool_stats().largest_free);
    EXPECT_EQ(shortage.resource, "pool(" + resource->name() + ")");
    EXPECT_EQ(shortage.device.rfind(device().id() + ' ', 0), 0U) << shortage.device;
    EXPECT_EQ(shortage.call, "") << "nobody was asked";
    EXPECT_FALSE(shortage.native);
    const std::string message = error.what();
    for (const std::string& part :
         {"asked of pool(" + resource->name() + ") on " + device().id(), std::string("alignment 4096"),
          std::string("in use by this resource "), std::string("reserved by it "), std::string("limit "),
          std::string("the driver was not asked")}) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
  }
}

TEST_P(PoolExhaustion, SaysWhatUpstreamSaid) {
  const auto limited = make_limiting(resource, 2 * page);
  const auto pool = make_pool(limited, {.segment_bytes = page});
  Buffer kept = pool->allocate(2 * page, stream);
  try {
    (void)pool->allocate(page, stream);
    FAIL() << "upstream has no more";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().resource, pool->name());
    EXPECT_EQ(error.shortage().requested, page);
    EXPECT_EQ(error.shortage().limit, 2 * page);
    EXPECT_EQ(error.shortage().in_use, 2 * page);
    EXPECT_EQ(error.shortage().reserved, 2 * page);
    EXPECT_EQ(error.shortage().largest_free, 0U);
  }
  kept.close();
  EXPECT_TRUE(pool->try_allocate(2 * page, stream).has_value());
}

// The memory that is asked for is the spilled buffers', which pending work still reads when they are closed.
TEST_P(PoolExhaustion, AFunctionSpillsAndItSucceeds) {
  const auto pool = four_pages();
  std::vector<Buffer> cache;
  std::vector<Bytes> spilled;
  const auto spilling = make_failure_callback(pool, [&](const AllocationFailure& failure) {
    EXPECT_EQ(failure.attempt, spilled.size() + 1);
    EXPECT_EQ(failure.bytes, 2 * page);
    EXPECT_EQ(failure.shortage.limit, 4 * page);
    EXPECT_EQ(failure.shortage.resource, pool->name());
    if (cache.empty()) return false;
    spilled.push_back(read(cache.back(), stream));
    cache.pop_back();
    return true;
  });
  cache = fill_up(*spilling);
  Buffer large = spilling->allocate(2 * page, stream);
  large.fill(std::uint8_t{9}, stream);
  ASSERT_EQ(spilled.size(), 2U) << "no more than needed";
  EXPECT_BYTES(spilled[0], Bytes(page, std::byte{3}));
  EXPECT_BYTES(spilled[1], Bytes(page, std::byte{2}));
  EXPECT_BYTES(read(cache[0], stream), Bytes(page, std::byte{0}));
  EXPECT_BYTES(read(cache[1], stream), Bytes(page, std::byte{1}));
  EXPECT_BYTES(read(large, stream), Bytes(2 * page, std::byte{9}));
  EXPECT_EQ(pool->stats().reserved, 4 * page);
}

TEST_P(PoolExhaustion, ASmallRequestWaitsForLargeMemoryRatherThanFail) {
  const auto pool = four_pages();
  Gate gate;
  Buffer seen;
  std::vector<Buffer> buffers = fill_up(*pool);
  gate.hold(stream);
  seen = snapshot(buffers[2], stream);
  buffers.clear();
  Buffer small = pool->allocate(1000, other);
  EXPECT_EQ(pool->pool_stats().waits, 1U);
  small.fill(std::uint8_t{9}, other);
  EXPECT_FALSE(other.done());
  gate.open();
  EXPECT_BYTES(read(small, other), Bytes(1000, std::byte{9}));
  stream.synchronize();
  EXPECT_BYTES(bytes_of(seen), Bytes(page, std::byte{2}));
  EXPECT_EQ(pool->stats().reserved, 4 * page);
}

TEST_P(PoolExhaustion, ARequestThatWaitsGrowsOnceMemoryCanGoBack) {
  const auto pool = make(
      {.limit = 2 * page, .segment_bytes = page, .reuse = ReusePolicy::passed_only, .patience = std::chrono::hours{1}});
  Gate gate;
  gate.hold(stream);
  Buffer first = pool->allocate(page, stream), second = pool->allocate(page, stream);
  first.fill(std::uint8_t{1}, stream);
  second.fill(std::uint8_t{1}, stream);
  first.close();
  second.close();
  Thread opener([&] { gate.open(); });
  const auto both = pool->try_allocate(2 * page, other);  // neither segment is enough
  opener.join();
  EXPECT_TRUE(both.has_value());
  EXPECT_EQ(pool->stats().reserved, 2 * page);
}

TEST_P(PoolExhaustion, AFunctionThatNeverHelpsIsBounded) {
  const auto pool = four_pages();
  std::size_t calls = 0;
  const auto hopeless = make_failure_callback(
      pool, [&](const AllocationFailure& failure) { return failure.attempt == ++calls; }, {.max_attempts = 3});
  const std::vector<Buffer> kept = fill_up(*hopeless);
  EXPECT_OUT_OF_MEMORY(hopeless->allocate(page, stream), hopeless->name());
  EXPECT_EQ(calls, 3U);
  calls = 0;
  EXPECT_FALSE(hopeless->try_allocate(page, stream).has_value());
  EXPECT_EQ(calls, 3U);
  EXPECT_EQ(pool->stats().live_buffers, 4U);
}

TEST_P(PoolExhaustion, AFunctionMayAllocateFromTheSamePool) {
  const auto pool = four_pages();
  std::vector<Buffer> cache;
  std::size_t calls = 0;
  ResourcePtr own;
  own = make_failure_callback(pool, [&](const AllocationFailure&) {
    ++calls;
    EXPECT_FALSE(own->try_allocate(3 * page, stream).has_value()) << "refused, without another call";
    EXPECT_FALSE(pool->try_allocate(3 * page, other).has_value());
    cache.clear();
    {
      Buffer scratch = pool->allocate(page / 2, stream), more = own->allocate(page / 2, other);
      scratch.fill(std::uint8_t{7}, stream);
      EXPECT_BYTES(read(scratch, stream), Bytes(page / 2, std::byte{7}));
    }
    pool->trim(0);
    return true;
  });
  cache = fill_up(*own);
  EXPECT_EQ(own->allocate(4 * page, stream).size(), 4 * page);
  EXPECT_EQ(calls, 1U);
}

TEST_P(PoolExhaustion, AFunctionUnderThePoolMayUseThatPool) {
  std::vector<Buffer> cache;
  std::size_t calls = 0;
  PoolPtr upper;
  const auto lower = make_failure_callback(make_limiting(resource, 4 * page), [&](const AllocationFailure&) {
    if (!std::exchange(cache, {}).empty()) {
      EXPECT_TRUE(upper->try_allocate(page / 4, stream).has_value()) << "from what is free";
    }
    EXPECT_FALSE(upper->try_allocate(8 * page, stream).has_value()) << "growth in the middle of growth";
    upper->trim(0);
    return ++calls < 5;
  });
  upper = make_pool(lower, {.segment_bytes = page});
  cache = fill_up(*upper);
  EXPECT_TRUE(upper->try_allocate(3 * page, stream).has_value());
  EXPECT_EQ(calls, 1U);
  EXPECT_FALSE(upper->try_allocate(5 * page, stream).has_value());
}

}  // namespace
}  // namespace weir::test
