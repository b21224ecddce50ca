// SPDX-License-Identifier: Apache-2.0
// Buffers over memory that the application allocated.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "bytes.hpp"
#include "expect.hpp"
#include "native.hpp"

namespace weir::cuda_test {
namespace {

using test::pattern;

class Wrap : public CudaTest {
 protected:
  static constexpr std::size_t size = 1 << 16;

  /// A buffer over it can be written and read; the release runs once.
  static void round_trip(CUdeviceptr address, std::size_t bytes) {
    const auto data = pattern(bytes, 10);
    int released = 0;
    {
      const Stream stream(gpu());
      Buffer buffer = Buffer::from_handle(
          gpu(), address, bytes, [&] { ++released; }, stream);
      EXPECT_EQ(cuda::pointer(buffer), address);
      EXPECT_EQ(buffer.kind(), MemoryKind::external);
      test::write(buffer, data, stream);
      EXPECT_BYTES(test::read(buffer, stream), data);
      const auto resource = buffer.memory_resource();
      buffer.close();
      stream.synchronize();
      (void)resource->trim(0);
    }
    EXPECT_EQ(released, 1);
  }
  static void refused(CUdeviceptr address, std::size_t bytes, Errc condition, std::string_view text) {
    const Stream stream(gpu());
    bool released = false;
    EXPECT_ERROR(Buffer::from_handle(
                     gpu(), address, bytes, [&] { released = true; }, stream),
                 condition, text);
    EXPECT_FALSE(released);
  }
};

TEST_F(Wrap, DeviceMemory) {
  const Current current(primary());
  CUdeviceptr address = 0;
  ASSERT_CU(api().MemAlloc(&address, size));
  round_trip(address, size);
  round_trip(address + 100, size - 100);
  refused(address + 1, 4 * size * 1024, Errc::invalid_argument, "reaches beyond");
  EXPECT_CU(api().MemFree(address));
}

TEST_F(Wrap, PoolMemory) {
  const Current current(primary());
  const NativeStream stream;
  CUdeviceptr address = 0;
  ASSERT_CU(api().MemAllocAsync(&address, size, stream.get()));
  ASSERT_CU(api().StreamSynchronize(stream.get()));
  round_trip(address, size);
  EXPECT_CU(api().MemFreeAsync(address, stream.get()));
}

TEST_F(Wrap, PinnedMemoryKeepsItsHostAddress) {
  const Current current(primary());
  void* memory = nullptr;
  ASSERT_CU(api().MemHostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  round_trip(address, size);
  {
    const Stream stream(gpu());
    Buffer buffer = Buffer::from_handle(gpu(), address + 8, 100, {}, stream);
    EXPECT_EQ(buffer.host_data(), static_cast<std::byte*>(memory) + 8);
  }
  EXPECT_CU(api().MemFreeHost(memory));
}

TEST_F(Wrap, ManagedMemory) {
  if (!gpu().find(MemoryKind::managed)) GTEST_SKIP() << "no managed memory here";
  const Current current(primary());
  CUdeviceptr address = 0;
  ASSERT_CU(api().MemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL));
  round_trip(address, size);
  {
    const Stream stream(gpu());
    Buffer buffer = Buffer::from_handle(gpu(), address, 100, {}, stream);
    EXPECT_EQ(buffer.host_data(), reinterpret_cast<std::byte*>(address));
  }
  EXPECT_CU(api().MemFree(address));
}

TEST_F(Wrap, MemoryOfAnotherDeviceIsRefused) {
  const auto all = devices();
  if (std::ranges::count(all, "cuda", &Device::backend) < 2) GTEST_SKIP() << "there is one CUDA device";
  const Device second = cuda::device(1);
  const Buffer buffer = cuda::make_device_resource(second)->allocate(size, Stream(second));
  refused(cuda::pointer(buffer), size, Errc::incompatible, "is memory of CUDA device 1, not of ");
}

// What PyTorch's expandable segments look like.
TEST_F(Wrap, MemoryOfTwoHandlesInARow) {
  const Current current(primary());
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
  std::size_t step = 0;
  ASSERT_CU(api().MemGetAllocationGranularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUdeviceptr address = 0;
  ASSERT_CU(api().MemAddressReserve(&address, 3 * step, 0, 0, 0));
  std::array<CUmemGenericAllocationHandle, 2> handles{};
  const CUmemAccessDesc access{.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (std::size_t i = 0; i < handles.size(); ++i) {
    ASSERT_CU(api().MemCreate(&handles[i], step, &properties, 0));
    ASSERT_CU(api().MemMap(address + i * step, step, 0, handles[i], 0));
    ASSERT_CU(api().MemSetAccess(address + i * step, step, &access, 1));
  }
  round_trip(address + 5000, 2 * step - 5000);
  refused(address, 2 * step + 1, Errc::invalid_argument, "reaches beyond");
  refused(address + 2 * step, 1, Errc::invalid_argument, "");
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_CU(api().MemUnmap(address + i * step, step));
    EXPECT_CU(api().MemRelease(handles[i]));
  }
  EXPECT_CU(api().MemAddressFree(address, 3 * step));
}

TEST_F(Wrap, AddressesWithoutMemoryAreRefused) {
  constexpr std::size_t reserved = std::size_t{64} << 20U;
  const Current current(primary());
  CUdeviceptr at = 0;
  ASSERT_CU(api().MemAddressReserve(&at, reserved, 0, 0, 0));
  for (const CUdeviceptr address : {at, at + 12345, CUdeviceptr{0x4200000b2}}) {
    refused(address, 64, Errc::invalid_argument, "64 bytes at 0x");
  }
  ASSERT_CU(api().MemAddressFree(at, reserved));
}

TEST_F(Wrap, OrdinaryMemoryIsRefused) {
  std::array<std::byte, 64> memory{};
  refused(reinterpret_cast<CUdeviceptr>(memory.data()), memory.size(), Errc::invalid_argument, "not memory that CUDA");
  refused(0x1000, 64, Errc::invalid_argument, "64 bytes at 0x1000");
}

}  // namespace
}  // namespace weir::cuda_test
