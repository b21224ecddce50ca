// SPDX-License-Identifier: Apache-2.0
// Streams of the application that it has forgotten, and maybe destroyed, while memory that was allocated on them is
// still somebody's: another process's, or the cache of a pool. Nobody may ask them any more, and what they still run
// counts.
#include <optional>
#include <thread>

#include "expect.hpp"
#include "model.hpp"
#include "weir/interop/cuda_allocator.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

class ForgottenStreams : public CudaTest {
 protected:
  void TearDown() override { test::await_releases(); }  // later tests let single calls of the driver fail

  static constexpr std::size_t page = std::size_t{2} << 20, half = page / 2, quarter = page / 4;

  [[nodiscard]] static PoolPtr one_page(bool exportable = false) {
    PoolOptions options{.segment_bytes = page, .reuse = ReusePolicy::passed_only, .patience = {}, .paged = false};
    options.initial_bytes = options.limit = page;
    options.exportable = exportable;
    return make_pool(
        make_resource(gpu(), exportable ? MemoryKind::vmm : MemoryKind::device, {.exportable = exportable}), options);
  }
  /// Of a buffer that nobody here owns any more.
  [[nodiscard]] static ipc::Descriptor leased(const PoolPtr& pool, const Stream& stream) {
    const Buffer buffer = pool->allocate(quarter, stream);
    return buffer.ipc_descriptor(stream);
  }
  /// Whoever gets the memory writes it, so that the judge of order sees what it was used for before.
  static bool takes(const PoolPtr& pool, std::size_t bytes, const Stream& stream) {
    auto next = pool->try_allocate(bytes, stream);
    if (!next) return false;
    next->fill(std::uint8_t{2}, stream);
    stream.synchronize();
    return true;
  }
  /// Once everything that was recorded is over, of which the model's device takes its time.
  static bool takes_in_the_end(const PoolPtr& pool, std::size_t bytes, const Stream& stream) {
    while (!takes(pool, bytes, stream)) std::this_thread::yield();
    return true;
  }
};

// One pool has memory that another process still has open. The other pool does not know of that.
TEST_F(ForgottenStreams, AreNotAskedByAnotherPool) {
  const Stream other(gpu());
  const auto leases = one_page(true), first = one_page(), second = one_page();
  std::optional<ipc::Descriptor> lease;
  std::optional<Buffer> live;
  {
    const NativeStream native;
    {
      const Stream stream = cuda::borrow(gpu(), native.get());
      (void)first->allocate(half, stream);
      lease = leased(leases, stream);
      (void)second->allocate(half, stream);
    }
  }
  EXPECT_TRUE(takes_in_the_end(first, page, other));
  EXPECT_TRUE(takes_in_the_end(second, page, other));
  lease.reset();
  EXPECT_TRUE(takes_in_the_end(leases, page, other));
}

// The first of the pools that keep the stream gives it up before the second does.
TEST_F(ForgottenStreams, AreKeptByTwoPools) {
  const Stream other(gpu());
  const auto first = one_page(true), second = one_page(true);
  std::optional<ipc::Descriptor> one, two;
  {
    const NativeStream native;
    const Stream stream = cuda::borrow(gpu(), native.get());
    one = leased(first, stream);
    two = leased(second, stream);
    (void)second->allocate(half, stream);
  }
  EXPECT_TRUE(takes_in_the_end(second, half, other)) << "what was closed";
  one.reset();
  (void)takes(first, half, other);  // has settled the lease
  EXPECT_TRUE(takes_in_the_end(second, half, other));
  two.reset();
  EXPECT_TRUE(takes_in_the_end(first, page, other));
  EXPECT_TRUE(takes_in_the_end(second, page, other));
}

// Its owner goes on to use it, while memory of it is live.
TEST_F(ForgottenStreams, StillOrderWhatIsPutThere) {
  const Stream other(gpu());
  const auto pool = one_page(true);
  const NativeStream native;
  std::optional<ipc::Descriptor> lease;
  Buffer buffer;
  {
    const Stream stream = cuda::borrow(gpu(), native.get());
    lease = leased(pool, stream);
    buffer = pool->allocate(half, stream);
  }
  Busy kernel(native.get(), {cuda::pointer(buffer), half, 1});
  buffer.close();
  EXPECT_FALSE(takes(pool, half, other)) << "it is used";
  lease.reset();
  EXPECT_FALSE(takes(pool, half, other)) << "it still is";
  kernel.release();
  (void)pool->trim(0);
  EXPECT_TRUE(takes_in_the_end(pool, page, other));
}

TEST_F(ForgottenStreams, StillOrderWhatWasPutWhileTheyWereBorrowedAgain) {
  const Stream other(gpu());
  const auto pool = one_page(true);
  const NativeStream native;
  std::optional<ipc::Descriptor> lease;
  {
    const Stream stream = cuda::borrow(gpu(), native.get());
    lease = leased(pool, stream);
  }
  std::optional<Busy> kernel;
  {
    const Stream stream = cuda::borrow(gpu(), native.get());
    Buffer buffer = pool->allocate(half, stream);
    kernel.emplace(native.get(), Busy::Write{cuda::pointer(buffer), half, 1});
    buffer.close();
  }
  EXPECT_FALSE(takes(pool, half, other)) << "it is used";
  lease.reset();
  EXPECT_FALSE(takes(pool, half, other)) << "it still is";
  kernel->release();
  (void)pool->trim(0);
  EXPECT_TRUE(takes_in_the_end(pool, page, other));
}

// The memory of a leased buffer was used there, and allocated elsewhere.
TEST_F(ForgottenStreams, StillOrderWhatTheyCachedWhenAnothersMemoryKeptThem) {
  const Stream other(gpu());
  const auto leases = one_page(true), pool = one_page();
  const NativeStream native;
  std::optional<ipc::Descriptor> lease;
  std::optional<Busy> kernel;
  {
    const Stream stream = cuda::borrow(gpu(), native.get());
    {
      const Buffer used = leases->allocate(quarter, other);
      lease = used.ipc_descriptor(other);
      used.use_on(stream);
    }
    Buffer buffer = pool->allocate(half, stream);
    kernel.emplace(native.get(), Busy::Write{cuda::pointer(buffer), half, 1});
    buffer.close();
  }
  lease.reset();
  (void)takes(leases, half, other);  // has settled the leases
  EXPECT_FALSE(takes(pool, page, other)) << "it is used";
  kernel->release();
  (void)pool->trim(0);
  EXPECT_TRUE(takes_in_the_end(pool, page, other));
}

// Whoever has it again may ask it again.
TEST_F(ForgottenStreams, AreAskedAgainOnceTheyAreBorrowedAgain) {
  const Stream other(gpu());
  const auto pool = one_page(), another = one_page();
  const NativeStream native;
  Buffer live;
  {
    const Stream stream = cuda::borrow(gpu(), native.get());
    live = pool->allocate(quarter, stream);
  }
  const Stream stream = cuda::borrow(gpu(), native.get());
  (void)pool->allocate(half, stream);
  (void)another->allocate(half, stream);
  EXPECT_TRUE(takes_in_the_end(pool, half, other));
  EXPECT_TRUE(takes_in_the_end(another, page, other)) << "which had nothing when it was forgotten";
}

// The allocator remembers the streams that it was called for, and the application does not.
TEST_F(ForgottenStreams, AreNotAskedForTheAllocatorsSake) {
  const Stream other(gpu());
  const auto pool = one_page();
  cuda::Allocator allocator(make_pool(make_resource(gpu(), MemoryKind::device)));
  {
    const NativeStream native;
    allocator.deallocate(native.get(), allocator.allocate(native.get(), 1000));
    (void)pool->allocate(half, cuda::borrow(gpu(), native.get()));
    allocator.deallocate(native.get(), allocator.allocate(native.get(), 1000));
  }
  EXPECT_TRUE(takes_in_the_end(pool, page, other));
}

// The driver is not told to free in their order either, not even memory that waits for nothing else. A round proves
// nothing when another stream is still busy with the memory, so there are several.
TEST_F(ForgottenStreams, AreNotToldToFree) {
  if (!gpu().find(MemoryKind::async)) GTEST_SKIP() << "no driver pools here";
  const auto count = reinterpret_cast<std::size_t (*)(const char*)>(test::find_in_model("fake_cuda_calls"));
  const auto frees = [&] { return count ? count("cuMemFreeAsync") : 0; };  // real drivers do not count
  for (int round = 0; round < 5; ++round) {
    test::await_releases();  // the driver frees the memory of the round before only once no kernel runs
    const NativeStream held;
    Busy busy(held.get());
    Buffer keeps;  // the timeline open, which closes with the last memory of the stream
    PoolPtr pool = make_pool(make_resource(gpu(), MemoryKind::async), {.segment_bytes = page, .paged = false});
    const Current current(primary());
    CUstream native = nullptr;
    ASSERT_CU(api().StreamCreate(&native, CU_STREAM_NON_BLOCKING));
    {
      const Stream stream = cuda::borrow(gpu(), native);
      keeps = make_resource(gpu(), MemoryKind::device)->allocate(1000, stream);
      Buffer buffer = pool->allocate(half, stream);
      stream.wait(cuda::borrow(gpu(), held.get()).record());
      buffer.fill(std::uint8_t{1}, stream);
    }
    const auto before = frees();
    pool.reset();
    EXPECT_EQ(frees(), before);
    busy.release();
    keeps.close();
    ASSERT_CU(api().StreamDestroy(native));
  }
}

}  // namespace
}  // namespace weir::cuda_test
