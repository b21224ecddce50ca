// SPDX-License-Identifier: Apache-2.0
// No range of a pool is handed out while a kernel uses it. Streams do not wait for each other here: kernels
// run for as long as the test wants, and write at their very end.
#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <ostream>
#include <string>

#include "bytes.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "native.hpp"
#include "settle.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

struct Over {
  const char* name;
  MemoryKind kind;
  bool paged;
};
void PrintTo(const Over& over, std::ostream* out) { *out << over.name; }

class KernelsOnPools : public CudaTest, public testing::WithParamInterface<Over> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const KindInfo* const info = gpu().find(GetParam().kind);
    if (!info) GTEST_SKIP() << gpu().id() << " has no memory of kind " << to_string(GetParam().kind);
    page = std::max(std::size_t{2} << 20, info->granularity);
    pinned = cuda::make_pinned_resource(gpu());
    warm_up();
  }

  [[nodiscard]] ResourcePtr upstream() const { return make_resource(gpu(), GetParam().kind); }
  /// Of one page, or of as many as there are.
  [[nodiscard]] PoolPtr make(ReusePolicy reuse, bool one_page = true) const {
    PoolOptions options{.segment_bytes = page, .reuse = reuse, .patience = {}, .paged = GetParam().paged};
    if (one_page) options.initial_bytes = options.limit = page;
    return make_pool(upstream(), options);
  }
  [[nodiscard]] Busy::Write ones_to(const Buffer& buffer) const {
    return {cuda::pointer(buffer), page, 0x01010101};
  }
  /// What it holds when `on` gets there.
  [[nodiscard]] Buffer snapshot(const Buffer& of, const Stream& on) const {
    Buffer copy = pinned->allocate(of.size(), on);
    copy.copy_from(of, on);
    return copy;
  }
  static void expect_all(const Buffer& snapshot, unsigned char value) {
    EXPECT_BYTES((std::span<const std::byte>(snapshot.host_data(), snapshot.size())),
                 test::repeat(snapshot.size(), value));
  }
  void overwrite(const PoolPtr& pool, const Stream& on) const {
    auto next = pool->try_allocate(page, on);
    ASSERT_TRUE(next.has_value());
    next->fill(std::uint8_t{2}, on);
    const Buffer seen = snapshot(*next, on);
    on.synchronize();
    expect_all(seen, 2);
  }

  std::size_t page = 0;
  ResourcePtr pinned;

 private:
  // What is loaded on first use may wait for the device, and so may what is given back to the driver: not with a
  // kernel on it that waits for us.
  void warm_up() const {
    {
      const Stream stream(gpu());
      Buffer buffer = upstream()->allocate(page, stream);
      buffer.fill(std::uint8_t{1}, stream);
      const Buffer seen = snapshot(buffer, stream);
      stream.synchronize();
    }
    test::await_releases();
  }
};

TEST_P(KernelsOnPools, PassedOnlyGivesNothingAway) {
  const auto pool = make(ReusePolicy::passed_only);
  const Stream a(gpu()), b(gpu());
  Buffer first = pool->allocate(page, a);
  Busy kernel(cuda::native(a), ones_to(first));
  const Buffer seen = snapshot(first, a);
  first.close();
  EXPECT_FALSE(pool->try_allocate(page, b).has_value());
  EXPECT_FALSE(a.done());
  kernel.release();
  a.synchronize();
  overwrite(pool, b);
  expect_all(seen, 1);
  EXPECT_EQ(pool->pool_stats().waits, 0U);
}

TEST_P(KernelsOnPools, WhoGetsItBeforeWaitsOnItsStream) {
  const auto pool = make(ReusePolicy::wait_rather_than_grow, false);
  const Stream a(gpu()), b(gpu());
  Buffer first = pool->allocate(page, a);
  const auto address = cuda::pointer(first);
  Busy kernel(cuda::native(a), ones_to(first));
  const Buffer seen_first = snapshot(first, a);
  first.close();
  Buffer second = pool->allocate(page, b);
  EXPECT_EQ(cuda::pointer(second), address);
  EXPECT_EQ(pool->pool_stats().waits, 1U);
  second.fill(std::uint8_t{2}, b);
  const Buffer seen_second = snapshot(second, b);
  EXPECT_FALSE(b.done());
  kernel.release();
  b.synchronize();
  a.synchronize();
  expect_all(seen_first, 1);
  expect_all(seen_second, 2);
}

TEST_P(KernelsOnPools, AKernelOnTheStreamThatIsGivenToClose) {
  const auto pool = make(ReusePolicy::wait_rather_than_fail);
  const Stream a(gpu()), b(gpu());
  Buffer first = pool->allocate(page, a);
  a.synchronize();
  Busy kernel(cuda::native(b), ones_to(first));
  const Buffer seen = snapshot(first.slice(0, page), b);
  first.close(b);
  EXPECT_FALSE(pool->try_allocate(page, a).has_value()) << "free at home, but not there";
  EXPECT_FALSE(pool->try_allocate(page, b).has_value());
  kernel.release();
  b.synchronize();
  overwrite(pool, a);
  expect_all(seen, 1);
}

TEST_P(KernelsOnPools, AKernelOnAStreamOfTheApplication) {
  const auto pool = make(ReusePolicy::wait_rather_than_fail);
  const Stream a(gpu());
  const NativeStream native;
  Buffer first = pool->allocate(page, a);
  a.synchronize();
  std::optional<Busy> kernel(std::in_place, native.get(), ones_to(first));
  first.use_on(cuda::borrow(gpu(), native.get()));  // and nobody keeps it
  first.close();
  EXPECT_FALSE(pool->try_allocate(page, a).has_value());
  kernel.reset();  // and is over then
  overwrite(pool, a);
}

TEST_P(KernelsOnPools, AStreamOfTheApplicationThatIsForgottenMeanwhile) {
  const auto pool = make(ReusePolicy::passed_only);
  const Stream b(gpu());
  const NativeStream native;
  std::optional<Busy> kernel;
  {
    const Stream a = cuda::borrow(gpu(), native.get());
    const Buffer first = pool->allocate(page, a);
    kernel.emplace(native.get(), ones_to(first));
  }
  EXPECT_FALSE(pool->try_allocate(page, b).has_value());
  kernel.reset();  // and is over then
  overwrite(pool, b);
  pool->trim(0);
  upstream()->trim(0);  // what weir still does for that stream is over
  EXPECT_EQ(pool->pool_stats().streams, 1U) << "of the other stream";
}

// What comes home while trim() waits gets its last point there, and that is behind a kernel.
TEST_P(KernelsOnPools, TrimWaitsForWhatComesHome) {
  const auto pool = make(ReusePolicy::passed_only);
  const NativeStream native;
  const Stream home = cuda::borrow(gpu(), native.get()), other(gpu());
  Buffer buffer = pool->allocate(page, home);
  home.synchronize();
  test::Gate gate;
  gate.hold(other);
  buffer.use_on(other);
  buffer.close();
  std::optional<Busy> kernel(std::in_place, native.get());
  auto trimming = std::async(std::launch::async, [&] { return pool->trim(0); });
  EXPECT_EQ(trimming.wait_for(std::chrono::milliseconds{20}), std::future_status::timeout);
  gate.open();
  EXPECT_EQ(trimming.wait_for(std::chrono::milliseconds{20}), std::future_status::timeout);
  kernel.reset();
  EXPECT_GE(trimming.get(), page);
  EXPECT_EQ(pool->stats().reserved, 0U);
}

constexpr Over plain[] = {{"device", MemoryKind::device, false},
                          {"async", MemoryKind::async, false},
                          {"vmm", MemoryKind::vmm, false},
                          {"vmm_paged", MemoryKind::vmm, true}};
std::string name_of(const testing::TestParamInfo<Over>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Every, KernelsOnPools, testing::ValuesIn(plain), name_of);

/// Memory that the driver gives and takes without waiting for kernels.
class KernelsOnGrowingPools : public KernelsOnPools {};

TEST_P(KernelsOnGrowingPools, GrowthTakesNothingFromThem) {
  const auto pool = make(ReusePolicy::passed_only, false);
  const Stream a(gpu()), b(gpu());
  Buffer first = pool->allocate(page, a);
  Busy kernel(cuda::native(a), ones_to(first));
  const Buffer seen = snapshot(first, a);
  first.close();
  Buffer second = pool->allocate(4 * page, b);
  second.fill(std::uint8_t{2}, b);
  b.synchronize();
  EXPECT_FALSE(a.done());
  EXPECT_EQ(pool->pool_stats().moved + pool->pool_stats().given_back, 0U);
  kernel.release();
  a.synchronize();
  expect_all(seen, 1);
  Buffer third = pool->allocate(12 * page, b);
  third.fill(std::uint8_t{3}, b);
  EXPECT_EQ(pool->pool_stats().moved, GetParam().paged ? 1U : 0U);
  const Buffer seen_second = snapshot(second, b), seen_third = snapshot(third, b);
  b.synchronize();
  expect_all(seen_second, 2);
  expect_all(seen_third, 3);
}

INSTANTIATE_TEST_SUITE_P(Every, KernelsOnGrowingPools, testing::Values(plain[2], plain[3]), name_of);

class PoolsOfTheDriver : public CudaTest {};

TEST_F(PoolsOfTheDriver, SayWhatItSaid) {
  const Stream stream(gpu());
  for (const Over& over : plain) {
    SCOPED_TRACE(over.name);
    if (over.kind == MemoryKind::async || !gpu().find(over.kind)) continue;
    const auto pool = make_pool(make_resource(gpu(), over.kind), {.paged = over.paged});
    Buffer kept = pool->allocate(1000, stream);
    const auto reserved = pool->stats().reserved;
    try {
      (void)pool->allocate(gpu().total_memory(), stream);
      ADD_FAILURE() << "all of the device's memory was free";
    } catch (const OutOfMemory& error) {
      const Shortage& shortage = error.shortage();
      EXPECT_EQ(shortage.resource, pool->name());
      EXPECT_EQ(shortage.requested, gpu().total_memory());
      EXPECT_EQ(shortage.in_use, 1000U);
      EXPECT_EQ(shortage.reserved, reserved);
      EXPECT_EQ(shortage.call, over.kind == MemoryKind::vmm ? "cuMemCreate" : "cuMemAlloc");
      EXPECT_EQ(shortage.native, Errc::out_of_memory);
      EXPECT_NE(std::string(error.what()).find(shortage.call + " said "), std::string::npos) << error.what();
    }
    EXPECT_EQ(pool->stats().reserved, reserved) << "what was got of it went back";
  }
}

}  // namespace
}  // namespace weir::cuda_test
