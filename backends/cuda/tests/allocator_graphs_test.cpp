// SPDX-License-Identifier: Apache-2.0
// Memory for graphs: what is allocated and given back while a stream is being captured.
#include <array>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "allocators.hpp"
#include "cuda/background.hpp"
#include "cuda/stream.hpp"
#include "expect.hpp"
#include "settle.hpp"
#include "sink.hpp"
#include "threads.hpp"

namespace weir::cuda_test {
namespace {

/// A capture of one stream. Ends it if the test does not.
class Capture {
 public:
  explicit Capture(CUstream stream) : stream_(stream) {
    EXPECT_CU(api().StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (!stream_) return;
    CUgraph graph = end();
    if (!graph) return;
    EXPECT_CU(api().GraphDestroy(graph));
  }
  CUgraph end() {
    CUgraph graph = nullptr;
    EXPECT_CU(api().StreamEndCapture(std::exchange(stream_, nullptr), &graph)) << "nobody spoiled it";
    return graph;
  }

 private:
  CUstream stream_;
};

class AllocatorGraphs : public Allocators {
 protected:
  void SetUp() override {
    Allocators::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    current_.emplace(primary());
    stream_.emplace();
  }
  void TearDown() override {
    stream_.reset();
    await_ends();
    test::await_releases();
  }
  /// What ends with a graph ends on a thread, which asks for points that would spoil the next test's capture.
  static void await_ends() {
    std::promise<void> done;
    cuda::reaper().run([&done] { done.set_value(); });
    done.get_future().wait();
  }
  [[nodiscard]] CUstream stream() const { return stream_->get(); }
  /// A thread of the driver's tells of the end of a graph.
  static void await_live(const PoolPtr& memory, std::size_t buffers) {
    while (memory->stats().live_buffers != buffers) std::this_thread::yield();
    await_ends();
  }

 private:
  std::optional<Current> current_;
  std::optional<NativeStream> stream_;
};

TEST_F(AllocatorGraphs, MemoryStaysUntilTheGraphAndWhatCameOfItHaveEnded) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  Capture capture(stream());
  void* const address = allocator.allocate(stream(), page);
  ASSERT_NE(address, nullptr);
  allocator.deallocate(stream(), address);
  CUgraph graph = capture.end();
  CUgraphExec launchable = nullptr;
  ASSERT_CU(api().GraphInstantiateWithFlags(&launchable, graph, 0));
  EXPECT_CU(api().GraphDestroy(graph));
  EXPECT_EQ(allocator.live(), 0U);
  EXPECT_EQ(memory->stats().live_buffers, 1U) << "every launch uses it";
  void* const other = allocator.allocate(stream(), page);
  EXPECT_NE(other, address);
  allocator.deallocate(stream(), other);
  EXPECT_CU(api().GraphExecDestroy(launchable));
  await_live(memory, 0);
  EXPECT_TRUE(test::take_reports().empty());
}

TEST_F(AllocatorGraphs, ACapturedStreamUsesItsMemoryAgain) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  const NativeStream second;
  Capture capture(stream());
  void* const address = allocator.allocate(stream(), page);
  allocator.deallocate(stream(), address);
  for (const std::size_t odd : {0U, 3U}) {
    EXPECT_ERROR((void)allocator.allocate(stream(), page, odd), Errc::invalid_argument, "alignment");
  }
  EXPECT_EQ(allocator.allocate(stream(), page - 256), address);
  void* const more = allocator.allocate(stream(), page);
  EXPECT_NE(more, address) << "which is in use";
  allocator.deallocate(stream(), more);
  EXPECT_NE(allocator.allocate(stream(), page / 4), more) << "which is much too large";
  EXPECT_CU(api().GraphDestroy(capture.end()));
  allocator.deallocate(stream(), address);
  await_live(memory, 1);
  EXPECT_EQ(allocator.live(), 1U) << "what is not given back outlives the graph";
}

TEST_F(AllocatorGraphs, MemoryThatComesAgainIsAligned) {
  constexpr std::size_t bytes = 4096, alignment = page / 2;
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  Capture capture(stream());
  std::array<void*, 3> used{};
  for (void*& address : used) address = allocator.allocate(stream(), bytes);
  for (void* address : used) allocator.deallocate(stream(), address);
  for (int i = 0; i < 3; ++i) {
    void* const address = allocator.allocate(stream(), bytes, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % alignment, 0U);
  }
  EXPECT_CU(api().GraphDestroy(capture.end()));
}

// Its handle is that of another stream in each thread, and the capture may have more than one of them.
TEST_F(AllocatorGraphs, MemoryOfThePerThreadStreamIsNotUsedAgain) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  Capture capture(CU_STREAM_PER_THREAD);
  void* const address = allocator.allocate(CU_STREAM_PER_THREAD, page);
  allocator.deallocate(CU_STREAM_PER_THREAD, address);
  void* const other = allocator.allocate(CU_STREAM_PER_THREAD, page);
  EXPECT_NE(other, address);
  allocator.deallocate(CU_STREAM_PER_THREAD, other);
  EXPECT_CU(api().GraphDestroy(capture.end()));
  await_live(memory, 0);
}

TEST_F(AllocatorGraphs, AnotherGraphGetsOtherMemory) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  Capture first(stream());
  void* const address = allocator.allocate(stream(), page);
  allocator.deallocate(stream(), address);
  CUgraph one = first.end();
  {
    const Capture second(stream());
    void* const other = allocator.allocate(stream(), page);
    EXPECT_NE(other, address) << "the graphs may run at the same time";
    allocator.deallocate(stream(), other);
  }
  EXPECT_CU(api().GraphDestroy(one));
  await_live(memory, 0);
}

// Memory from before the capture comes back on a captured stream: the graph may use it whenever it is launched.
TEST_F(AllocatorGraphs, WhatComesBackIntoAGraphStaysWithIt) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  void* const address = allocator.allocate(stream(), page);
  Capture capture(stream());
  allocator.deallocate(stream(), address);
  EXPECT_NE(allocator.allocate(stream(), page), address);
  CUgraph graph = capture.end();
  EXPECT_EQ(memory->stats().live_buffers, 2U);
  void* const other = allocator.allocate(stream(), page);
  EXPECT_NE(other, address);
  EXPECT_CU(api().GraphDestroy(graph));
  await_live(memory, 2);
  EXPECT_TRUE(test::take_reports().empty()) << "nothing is leaked";
}

// A result of a graph is given back outside of it, while the graph can still be launched.
TEST_F(AllocatorGraphs, WhatComesBackOutsideStaysWithTheGraph) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  Capture capture(stream());
  void* const address = allocator.allocate(stream(), page);
  CUgraph graph = capture.end();
  allocator.deallocate(stream(), address);
  EXPECT_EQ(allocator.live(), 0U);
  EXPECT_NE(allocator.allocate(stream(), page), address);
  EXPECT_CU(api().GraphDestroy(graph));
  await_live(memory, 1);
}

TEST_F(AllocatorGraphs, TheAllocatorMayEndBeforeTheGraph) {
  const auto memory = pool();
  CUgraph graph = nullptr;
  {
    cuda::Allocator allocator(memory);
    void* const before = allocator.allocate(stream(), page);
    Capture capture(stream());
    (void)allocator.allocate(stream(), page);
    allocator.deallocate(stream(), before);
    graph = capture.end();
  }
  EXPECT_EQ(memory->stats().live_buffers, 2U);
  EXPECT_CU(api().GraphDestroy(graph));
  await_live(memory, 0);
}

// The library's thread looks after what a pool without handles had. It makes no point of the whole context for that.
TEST_F(AllocatorGraphs, ACaptureAfterThePoolsEndIsSpared) {
  const auto upstream = cuda::make_vmm_resource(gpu());
  {
    const auto memory = make_pool(upstream, {.segment_bytes = page, .paged = false});
    cuda::Allocator allocator(memory);
    Capture capture(stream());
    allocator.deallocate(stream(), allocator.allocate(stream(), page));
    EXPECT_CU(api().GraphDestroy(capture.end()));
    await_live(memory, 0);
    EXPECT_NE(upstream->stats().live_buffers, 0U);
  }
  Capture capture(stream());
  while (upstream->stats().live_buffers != 0) std::this_thread::yield();
  EXPECT_CU(api().GraphDestroy(capture.end()));
}

TEST_F(AllocatorGraphs, ExhaustionIsToldAndSpoilsNothing) {
  const auto memory = pool(page);
  cuda::Allocator allocator(memory);
  Capture capture(stream());
  void* const address = allocator.allocate(stream(), page);
  EXPECT_OUT_OF_MEMORY((void)allocator.allocate(stream(), page), "limit");
  allocator.deallocate(stream(), address);
  EXPECT_CU(api().GraphDestroy(capture.end()));
  await_live(memory, 0);
}

// While one stream is captured, others get memory for which a point of the whole context would be made otherwise.
TEST_F(AllocatorGraphs, OtherStreamsSpareACapture) {
  const auto memory = pool(4 * page);
  cuda::Allocator allocator(memory);
  const NativeStream first, second;
  for (int i = 0; i < 50; ++i) allocator.deallocate(first.get(), allocator.allocate(first.get(), page));
  Capture capture(stream());
  (void)allocator.allocate(stream(), page);
  for (int i = 0; i < 3; ++i) {
    void* const address = allocator.allocate(second.get(), page);
    allocator.deallocate(second.get(), address);
    allocator.deallocate(first.get(), allocator.allocate(first.get(), page));
  }
  CUgraph graph = capture.end();
  EXPECT_CU(api().GraphDestroy(graph));
  allocator.deallocate(stream(), allocator.allocate(stream(), page));
}

// Another thread captures in global mode.
TEST_F(AllocatorGraphs, OtherThreadsSpareACapture) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  const NativeStream other;
  allocator.deallocate(other.get(), allocator.allocate(other.get(), page));
  Capture capture(stream());
  void* const address = allocator.allocate(stream(), page);
  test::Thread thread([&] {
    const Current current(primary());
    for (int i = 0; i < 100; ++i) allocator.deallocate(other.get(), allocator.allocate(other.get(), 4096 << (i % 3)));
  });
  thread.join();
  allocator.deallocate(stream(), address);
  EXPECT_CU(api().GraphDestroy(capture.end()));
  await_live(memory, 0);
}

// While a graph lives, somebody may be capturing; yet streams that come and go leave no timelines behind.
TEST_F(AllocatorGraphs, StreamsComeAndGoBesideAGraph) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  Capture capture(stream());
  ASSERT_NE(allocator.allocate(stream(), page), nullptr);
  CUgraph graph = capture.end();
  for (int i = 0; i < 12'000; ++i) {
    const NativeStream one;
    allocator.deallocate(one.get(), allocator.allocate(one.get(), page));
  }
  EXPECT_LT(cuda::GpuStream::count(), 6000U);
  EXPECT_CU(api().GraphDestroy(graph));
}

TEST_F(AllocatorGraphs, AnInvalidCaptureIsRefused) {
  const auto memory = pool();
  cuda::Allocator allocator(memory);
  ASSERT_CU(api().StreamBeginCapture(stream(), CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_NE(api().StreamQuery(stream()), CUDA_SUCCESS);  // spoils it
  EXPECT_ERROR((void)allocator.allocate(stream(), page), Errc::unsupported, "invalid");
  CUgraph graph = nullptr;
  EXPECT_NE(api().StreamEndCapture(stream(), &graph), CUDA_SUCCESS);
  EXPECT_EQ(memory->stats().live_buffers, 0U);
  allocator.deallocate(stream(), allocator.allocate(stream(), page));
}

}  // namespace
}  // namespace weir::cuda_test
