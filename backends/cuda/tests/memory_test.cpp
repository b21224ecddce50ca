// SPDX-License-Identifier: Apache-2.0
// What each kind of CUDA memory promises beyond the conformance suite.

#include <future>

#include "bytes.hpp"
#include "expect.hpp"
#include "gate.hpp"
#include "modelled_driver.hpp"
#include "native.hpp"
#include "settle.hpp"
#include "threads.hpp"
#include "weir/pool.hpp"
#include "weir/tensor.hpp"

namespace weir::cuda_test {
namespace {

using test::pattern;

class Memory : public CudaTest {};

TEST_F(Memory, KindsAndLabels) {
  const auto label = [](MemoryKind kind) {
    const KindInfo* info = gpu().find(kind);
    return info ? info->dlpack_device : -1;
  };
  EXPECT_EQ(label(MemoryKind::device), 2);
  EXPECT_EQ(label(MemoryKind::pinned), 3);
  if (gpu().find(MemoryKind::async)) {
    EXPECT_EQ(gpu().default_kind(), MemoryKind::async);
  }
  if (gpu().find(MemoryKind::managed)) {
    EXPECT_EQ(label(MemoryKind::managed), 13);
  }
  EXPECT_NE(gpu().uuid(), Uuid{});
  EXPECT_GT(gpu().total_memory(), 0U);
  EXPECT_NE(gpu().driver().find("CUDA driver"), std::string_view::npos);
}

TEST_F(Memory, EveryFactoryGivesItsKind) {
  struct Factory {
    MemoryKind kind;
    ResourcePtr (*make)();
  };
  constexpr Factory factories[] = {{MemoryKind::device, [] { return cuda::make_device_resource(gpu()); }},
                                   {MemoryKind::async, [] { return cuda::make_async_resource(gpu()); }},
                                   {MemoryKind::vmm, [] { return cuda::make_vmm_resource(gpu()); }},
                                   {MemoryKind::pinned, [] { return cuda::make_pinned_resource(gpu()); }},
                                   {MemoryKind::managed, [] { return cuda::make_managed_resource(gpu()); }}};
  const Stream stream(gpu());
  for (const Factory& factory : factories) {
    SCOPED_TRACE(to_string(factory.kind));
    if (!gpu().find(factory.kind)) {
      EXPECT_ERROR(factory.make(), Errc::unsupported, "cuda:0");
      continue;
    }
    const auto resource = factory.make();
    EXPECT_EQ(resource->kind(), factory.kind);
    EXPECT_EQ(resource->name(), "cuda." + std::string(to_string(factory.kind)));
    EXPECT_EQ(resource->allocate(5000, stream).kind(), factory.kind);
  }
}

TEST_F(Memory, SegmentsBeginWhereTheirKindSays) {
  const Stream stream(gpu());
  const Device of = gpu();
  for (const KindInfo& info : of.kinds()) {
    SCOPED_TRACE(to_string(info.kind));
    const auto resource = make_resource(gpu(), info.kind);
    std::vector<Buffer> buffers;
    for (std::size_t bytes : {1, 255, 257, 5000}) {
      buffers.push_back(resource->allocate(bytes, stream));
      EXPECT_EQ(cuda::pointer(buffers.back()) % info.alignment, 0U);
      EXPECT_EQ(resource->allocate(bytes, stream, 1 << 16).device_address() % (1 << 16), 0U);
    }
  }
}

TEST_F(Memory, RefusalsSayWhoRefused) {
  const Stream stream(gpu());
  const Device of = gpu();
  for (const KindInfo& info : of.kinds()) {
    SCOPED_TRACE(to_string(info.kind));
    const auto resource = make_resource(gpu(), info.kind);
    try {
      (void)resource->allocate(std::size_t{1} << 50, stream);
      ADD_FAILURE() << "one PiB was there";
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.shortage().requested, std::size_t{1} << 50);
      // Managed memory may be in the memory of the device and in that of the host.
      EXPECT_GT(error.shortage().limit, info.kind == MemoryKind::managed ? gpu().total_memory() : 0U);
      if (!info.host_accessible) {
        EXPECT_TRUE(error.shortage().native == Errc::out_of_memory ||
                    error.shortage().native == Errc::invalid_argument);
        EXPECT_GT(error.shortage().device_free, 0U);
        EXPECT_EQ(error.shortage().call.substr(0, 2), "cu");
      }
    }
    EXPECT_FALSE(resource->try_allocate(std::numeric_limits<std::size_t>::max() / 2 - 4096, stream));
    EXPECT_EQ(resource->stats().reserved, 0U);
    EXPECT_EQ(resource->allocate(64, stream).size(), 64U) << "works after a refusal";
  }
}

TEST_F(Memory, AllOfTheDeviceIsRefusedByTheDriver) {
  const Stream stream(gpu());
  for (MemoryKind kind : {MemoryKind::device, MemoryKind::vmm}) {
    SCOPED_TRACE(to_string(kind));
    if (!gpu().find(kind)) continue;
    try {
      (void)make_resource(gpu(), kind)->allocate(gpu().total_memory(), stream);
      ADD_FAILURE() << "all of the device's memory was free";
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.shortage().native, Errc::out_of_memory);
    }
  }
}

// Also while the library's own thread, which else frees it, is busy with something else.
TEST_F(Memory, ThatOthersHaveClosedMakesRoomForPages) {
  if (!test::find_in_model("fake_cuda_fault"))
    GTEST_SKIP() << "a real GPU may not have three quarters of its memory free";
  const std::size_t most = gpu().total_memory() / 4 * 3;
  const Stream stream(gpu()), host(host_device());
  std::promise<void> begun, may_end;
  std::byte byte{};
  const test::OnLeaving over([] { test::await_releases(); });
  {
    const test::OnLeaving end([&] { may_end.set_value(); });
    test::Gate gate;
    gate.hold(host);
    Buffer::from_handle(
        host_device(), reinterpret_cast<std::uintptr_t>(&byte), 1,
        [&] {
          begun.set_value();
          may_end.get_future().wait();
        },
        host)
        .fill(std::byte{1}, host);
    gate.open();
    begun.get_future().wait();
    cuda::make_device_resource(gpu())->allocate(most, stream).close();
    const auto pool = make_pool(cuda::make_vmm_resource(gpu()), {.patience = {}});  // nothing is to be waited for
    EXPECT_EQ(pool->allocate(most, stream).size(), most);
  }
}

// A pool waits for it, whoever closed it.
TEST_F(Memory, ThatAStreamStillUsesMakesRoomForPools) {
  const auto calls = reinterpret_cast<std::size_t (*)(const char*)>(test::find_in_model("fake_cuda_calls"));
  if (!calls) GTEST_SKIP() << "a real GPU may not have three quarters of its memory free";
  const std::size_t most = gpu().total_memory() / 4 * 3;
  const Stream stream(gpu()), other(gpu());
  test::await_releases();
  Buffer closed = cuda::make_device_resource(gpu())->allocate(most, stream);
  test::Gate gate;
  gate.hold(stream);
  closed.fill(std::byte{1}, stream);
  closed.close();
  const auto upstream = cuda::make_vmm_resource(gpu());
  EXPECT_EQ(make_pool(upstream, {.patience = {}})->try_allocate(most, other), std::nullopt);
  const auto before = calls("cuMemCreate");
  test::Thread opens([&] {
    while (calls("cuMemCreate") == before) std::this_thread::yield();  // until it was tried in vain
    gate.open();
  });
  EXPECT_EQ(make_pool(upstream, {.patience = std::chrono::seconds{30}})->allocate(most, other).size(), most);
}

// They may be longer than any pitch that the driver takes.
TEST_F(Memory, RowsThatAreNoRectangleAreCopiedOneByOne) {
  const auto calls = reinterpret_cast<std::size_t (*)(const char*)>(test::find_in_model("fake_cuda_calls"));
  if (!calls) GTEST_SKIP() << "real drivers do not count their calls";
  constexpr std::int64_t rows = 8, row = 64;
  const Stream stream(gpu());
  const Buffer source = cuda::make_device_resource(gpu())->allocate(rows * row, stream);
  const Buffer target = source.memory_resource()->allocate(rows * row, stream);
  Layout backward = Layout::compact(u8, {rows, row});
  backward.strides.front() = -row;
  backward.byte_offset = (rows - 1) * row;
  const auto rectangles = calls("cuMemcpy3DAsync"), lines = calls("cuMemcpyAsync");
  Tensor(source.share(), backward).copy_to(target.view(u8, {rows, row}), stream);
  stream.synchronize();
  EXPECT_EQ(calls("cuMemcpy3DAsync"), rectangles);
  EXPECT_EQ(calls("cuMemcpyAsync"), lines + rows);
}

TEST_F(Memory, APoolIsUsedInStreamOrder) {
  const auto resource = cuda::make_async_resource(gpu());
  const Stream stream(gpu());
  Busy busy(cuda::native(stream));
  const Event kernel = stream.record();
  for (int i = 0; i < 50; ++i) {
    Buffer buffer = resource->allocate(1 << 20, stream);
    buffer.fill(std::byte{1}, stream);
  }
  EXPECT_FALSE(kernel.done()) << "it waited for the kernel";
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  busy.release();
  stream.synchronize();
}

TEST_F(Memory, APoolServesAStreamOfTheHost) {
  const auto bytes = pattern(100000, 6);
  const Stream host(host_device()), stream(gpu());
  Buffer buffer = cuda::make_async_resource(gpu())->allocate(bytes.size(), host);
  stream.wait(host.record());
  test::write(buffer, bytes, stream);
  EXPECT_BYTES(test::read(buffer, stream), bytes);
}

TEST_F(Memory, APoolOutlivesItsResourceWhileItHasBuffers) {
  const auto bytes = pattern(1000, 7);
  const Stream stream(gpu());
  auto resource = cuda::make_async_resource(gpu(), {.release_threshold = 0, .max_size = 0});
  Buffer buffer = resource->allocate(bytes.size(), stream);
  resource.reset();
  test::write(buffer, bytes, stream);
  EXPECT_BYTES(test::read(buffer, stream), bytes);
}

TEST_F(Memory, ALimitedPoolRefusesMore) {
  constexpr std::size_t limit = 64 << 20;
  const auto resource = cuda::make_async_resource(gpu(), {.max_size = limit});
  const Stream stream(gpu());
  Buffer buffer = resource->allocate(32 << 20, stream);
  EXPECT_FALSE(resource->try_allocate(8 * limit, stream));
  try {
    (void)resource->allocate(8 * limit, stream);
    ADD_FAILURE() << "allocated beyond the limit";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().limit, limit);
  }
}

TEST_F(Memory, OtherKindsAreGivenBackAfterTheirLastUse) {
  for (MemoryKind kind : {MemoryKind::device, MemoryKind::vmm, MemoryKind::pinned, MemoryKind::managed}) {
    if (!gpu().find(kind)) continue;
    SCOPED_TRACE(to_string(kind));
    const auto resource = make_resource(gpu(), kind);
    const Stream stream(gpu()), other(gpu());
    Buffer buffer = resource->allocate(1 << 20, stream);
    buffer.fill(std::byte{0}, other);
    other.synchronize();
    Busy busy(cuda::native(other));
    buffer.fill(std::byte{1}, other);
    buffer.close();  // returns although the kernel runs
    EXPECT_GT(resource->stats().reserved, 0U);
    busy.release();
    (void)resource->trim(0);
    EXPECT_EQ(resource->stats().reserved, 0U);
  }
}

TEST_F(Memory, ManyFailuresLeaveNothing) {
  const Stream stream(gpu());
  const auto resource = cuda::make_vmm_resource(gpu());
  const auto free_bytes = [&] {
    Shortage shortage;
    try {
      (void)resource->allocate(std::size_t{1} << 50, stream);
    } catch (const OutOfMemory& error) {
      shortage = error.shortage();
    }
    return shortage.device_free;
  };
  bool nothing_is_lost = false;  // other processes may take memory of the device meanwhile, but not each time
  for (int round = 0; round < 5 && !nothing_is_lost; ++round) {
    const auto before = free_bytes();
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(resource->try_allocate(gpu().total_memory(), stream));
    nothing_is_lost = free_bytes() >= before;
  }
  EXPECT_TRUE(nothing_is_lost);
}

TEST_F(Memory, PointersOfRangesAndOfNothing) {
  const Stream stream(gpu());
  Buffer buffer = cuda::make_device_resource(gpu())->allocate(1000, stream);
  const auto base = cuda::pointer(buffer);
  EXPECT_EQ(base, buffer.device_address());
  EXPECT_EQ(cuda::pointer(buffer.slice(100, 50)), base + 100);
  EXPECT_EQ(cuda::pointer(cuda::make_device_resource(gpu())->allocate(0, stream)), 0U);
  buffer.close();
  EXPECT_ERROR(cuda::pointer(buffer), Errc::closed, "");
}

TEST_F(Memory, WhatADeviceLacksIsUnsupported) {
  EXPECT_ERROR(make_resource(gpu(), MemoryKind::upload), Errc::unsupported, "upload");
  EXPECT_ERROR(make_resource(gpu(), MemoryKind::device, {.exportable = true}), Errc::unsupported, "device");
}

}  // namespace
}  // namespace weir::cuda_test
