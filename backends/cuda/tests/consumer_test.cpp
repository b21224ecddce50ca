// SPDX-License-Identifier: Apache-2.0
// Consumers of DLPack tensors on streams of their own. They may destroy the stream before the tensor, with work on it,
// and that work still counts.
#include <dlpack/dlpack.h>

#include <array>
#include <optional>
#include <thread>

#include "expect.hpp"
#include "model.hpp"
#include "weir/dlpack.hpp"
#include "weir/pool.hpp"

namespace weir::cuda_test {
namespace {

class ConsumerStreams : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    home_.emplace(gpu());
    other_.emplace(gpu());
    pool = one_page();
  }
  void TearDown() override { test::await_releases(); }  // later tests let single calls of the driver fail

  static constexpr std::size_t page = std::size_t{2} << 20;

  [[nodiscard]] static PoolPtr one_page() {
    PoolOptions options{.segment_bytes = page, .reuse = ReusePolicy::passed_only, .patience = {}, .paged = false};
    options.initial_bytes = options.limit = page;
    return make_pool(make_resource(gpu(), MemoryKind::device), options);
  }
  /// Whoever gets the memory writes it, so that the model's judge of order sees what it was used for before.
  static bool takes(const PoolPtr& pool, const Stream& stream) {
    auto next = pool->try_allocate(page, stream);
    if (!next) return false;
    next->fill(std::uint8_t{2}, stream);
    stream.synchronize();
    return true;
  }
  static void takes_in_the_end(const PoolPtr& pool, const Stream& stream) {
    while (!takes(pool, stream)) std::this_thread::yield();
  }
  /// The page of the pool, given to a consumer on `native`, which nobody names afterwards.
  static ManagedTensor exported(const PoolPtr& pool, const Stream& home, CUstream native) {
    return pool->allocate(page, home)
        .view(u8, {static_cast<std::int64_t>(page)})
        .to_dlpack(cuda::borrow(gpu(), native));
  }
  static CUdeviceptr address(const ManagedTensor& tensor) {
    return reinterpret_cast<CUdeviceptr>(tensor.get()->dl_tensor.data);
  }

  [[nodiscard]] const Stream& home() const { return *home_; }
  [[nodiscard]] const Stream& other() const { return *other_; }

  PoolPtr pool;

 private:
  std::optional<Stream> home_, other_;
};

TEST_F(ConsumerStreams, MayBeDestroyedWithWorkBeforeTheTensor) {
  NativeStream native;
  std::optional<Busy> kernel;
  {
    const ManagedTensor tensor = exported(pool, other(), native.get());
    kernel.emplace(native.get(), Busy::Write{address(tensor), page, 1});
    native.destroy();
    kernel->lose_stream();
  }
  EXPECT_FALSE(takes(pool, other())) << "the kernel of the destroyed stream writes it";
  EXPECT_FALSE(takes(pool, home())) << "it still does";
  kernel->release();
  takes_in_the_end(pool, other());
}

TEST_F(ConsumerStreams, GetCopiesOfWhatTheyWrote) {
  const NativeStream native;
  const Tensor tensor =
      make_resource(gpu(), MemoryKind::device)->allocate(page, home()).view(u8, {static_cast<std::int64_t>(page)});
  const ManagedTensor same = tensor.to_dlpack(cuda::borrow(gpu(), native.get()));
  Busy kernel(native.get(), Busy::Write{address(same), page, 5});
  const ManagedTensor copy = tensor.to_dlpack(cuda::borrow(gpu(), native.get()), {.copy = DlpackCopy::always});
  kernel.release();
  const Current current(primary());
  ASSERT_CU(api().StreamSynchronize(native.get()));
  std::array<std::byte, 1> byte{};
  Buffer::from_handle(
      gpu(), address(copy), 1, [] {}, home())
      .copy_to(byte, home());
  home().synchronize();
  EXPECT_EQ(byte.front(), std::byte{5});
}

TEST_F(ConsumerStreams, CountWithTheWorkThatTheyHaveWhenTheTensorEnds) {
  const NativeStream native;
  std::optional<Busy> kernel;
  {
    const ManagedTensor tensor = exported(pool, home(), native.get());
    kernel.emplace(native.get(), Busy::Write{address(tensor), page, 1});
  }
  EXPECT_FALSE(takes(pool, other()));
  kernel->release();
  takes_in_the_end(pool, other());
}

TEST_F(ConsumerStreams, WaitForTheUsesSoFar) {
  const NativeStream native;
  Buffer buffer = pool->allocate(page, home());
  Busy kernel(cuda::native(home()), {cuda::pointer(buffer), page, 1});
  buffer.use_on(home());
  const ManagedTensor tensor =
      buffer.view(u8, {static_cast<std::int64_t>(page)}).to_dlpack(cuda::borrow(gpu(), native.get()));
  const Current scope(primary());
  EXPECT_EQ(api().StreamQuery(native.get()), CUDA_ERROR_NOT_READY);
  kernel.release();
  EXPECT_CU(api().StreamSynchronize(native.get()));
}

// A thousand exports to as many streams, all of which are gone: nothing grows with them.
TEST_F(ConsumerStreams, LeaveNoEventsBehind) {
  const auto live_events = reinterpret_cast<std::size_t (*)()>(test::find_in_model("fake_cuda_live_events"));
  if (!live_events) GTEST_SKIP() << "real drivers do not count their events";
  const auto once = [&] {
    const NativeStream native;
    (void)exported(pool, home(), native.get());
    takes_in_the_end(pool, home());
  };
  once();
  const auto before = live_events();
  for (int i = 0; i < 1000; ++i) once();
  EXPECT_LE(live_events(), before + 4);
}

// Asking whether a destroyed stream's work is over would spoil somebody's capture. So nobody asks meanwhile.
TEST_F(ConsumerStreams, AreNotAskedAboutWhileABlockingStreamIsCaptured) {
  const NativeStream captured(primary(), CU_STREAM_DEFAULT);
  {
    const NativeStream native;
    (void)exported(pool, home(), native.get());
  }
  {
    const Current scope(primary());
    ASSERT_CU(api().StreamBeginCapture(captured.get(), CU_STREAM_CAPTURE_MODE_RELAXED));
  }
  EXPECT_FALSE(takes(pool, other())) << "nobody knows yet";
  CUgraph graph = nullptr;
  {
    const Current scope(primary());
    ASSERT_CU(api().StreamEndCapture(captured.get(), &graph));
    EXPECT_CU(api().GraphDestroy(graph));
  }
  takes_in_the_end(pool, other());
}

}  // namespace
}  // namespace weir::cuda_test
