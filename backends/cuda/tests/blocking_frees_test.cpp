// SPDX-License-Identifier: Apache-2.0
// What the driver frees only when everything on the device is over, and nobody may put anything there meanwhile: never
// while a stream waits for the host, which may need the driver before it lets the stream go on.
#include <thread>
#include <vector>

#include "bytes.hpp"
#include "gate.hpp"
#include "native.hpp"

namespace weir::cuda_test {
namespace {

using test::Gate;

class BlockingFrees : public CudaTest, public testing::WithParamInterface<MemoryKind> {
 protected:
  static constexpr std::size_t size = std::size_t{4} << 20;

  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!gpu().find(GetParam())) GTEST_SKIP() << "no such memory here";
    resource_ = make_resource(gpu(), GetParam());
  }
  /// Used, and closed by now.
  CUdeviceptr close_one() {
    const Stream stream(gpu());
    Buffer buffer = resource_->allocate(size, stream);
    buffer.fill(std::byte{1}, stream);
    stream.synchronize();
    return buffer.device_address();
  }
  static bool is_there(CUdeviceptr address) {
    const Current current(primary());
    CUdeviceptr base = 0;
    std::size_t bytes = 0;
    return api().MemGetAddressRange(&base, &bytes, address) == CUDA_SUCCESS;
  }
  /// Frees go on where the last wait ends, on another thread.
  static void await_free(CUdeviceptr address) {
    while (is_there(address)) std::this_thread::yield();  // the watchdog ends it
  }

  /// What such a stream waits for is not held back in software.
  static Stream given_out() {
    Stream stream(gpu());
    EXPECT_NE(cuda::native(stream), nullptr);
    return stream;
  }

  ResourcePtr resource_;
};
INSTANTIATE_TEST_SUITE_P(Every, BlockingFrees,
                         testing::Values(MemoryKind::device, MemoryKind::pinned, MemoryKind::managed),
                         [](const auto& each) { return std::string(to_string(each.param)); });

TEST_P(BlockingFrees, AreOverWithTheTrim) {
  const CUdeviceptr address = close_one();
  resource_->trim(0);
  EXPECT_FALSE(is_there(address));
}

// The driver frees when all else is over: a thread of the library waits for that, and not who closes.
TEST_P(BlockingFrees, KeepNoCloserWaiting) {
  const Stream stream(gpu());
  Buffer buffer = resource_->allocate(size, stream);
  buffer.fill(std::byte{1}, stream);
  stream.synchronize();
  const NativeStream other;
  Busy busy(other.get());
  buffer.close();
  const Current current(primary());
  EXPECT_EQ(api().StreamQuery(other.get()), CUDA_ERROR_NOT_READY);
  busy.release();
}

// More streams than there are values to wait for, so that some wait in another way.
TEST_P(BlockingFrees, WaitForStreamsThatWaitForTheHost) {
  std::vector<Stream> streams;
  for (int i = 0; i < 6; ++i) streams.push_back(given_out());
  Buffer other = resource_->allocate(size, streams[0]);
  streams[0].synchronize();
  Gate first, second;
  second.hold(streams[0]);
  for (const Stream& stream : streams) first.hold(stream);
  const CUdeviceptr address = close_one();
  resource_->trim(0);
  EXPECT_TRUE(is_there(address));
  other.fill(std::byte{2}, streams[1]);  // nobody is kept waiting
  first.open();
  for (std::size_t i = 1; i < streams.size(); ++i) streams[i].synchronize();
  EXPECT_TRUE(is_there(address));
  second.open();
  streams[0].synchronize();
  await_free(address);
}

// Waits that never pause would have a program grow without end.
TEST_P(BlockingFrees, AreNotMissedByWhoAllocatesAsMuchAgain) {
  const Stream held = given_out(), stream(gpu());
  Gate gate;
  gate.hold(held);
  const CUdeviceptr address = close_one();
  resource_->trim(0);
  ASSERT_TRUE(is_there(address));
  Buffer larger = resource_->allocate(2 * size, stream);
  EXPECT_NE(larger.device_address(), address);
  Buffer again = resource_->allocate(size, stream);
  EXPECT_EQ(again.device_address(), address);
  EXPECT_NE(resource_->allocate(size, stream).device_address(), address) << "it is there once";
  again.fill(std::byte{5}, stream);
  EXPECT_BYTES(test::read(again, stream), test::repeat(size, 5));
  gate.open();
  held.synchronize();
  again.close();
  resource_->trim(0);
  await_free(address);
}

TEST_P(BlockingFrees, AreNotTakenForMemoryOfAnotherKindOrDevice) {
  const Stream held = given_out(), stream(gpu());
  Gate gate;
  gate.hold(held);
  const CUdeviceptr address = close_one();
  resource_->trim(0);
  ASSERT_TRUE(is_there(address));
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::managed}) {
    if (kind == GetParam() || !gpu().find(kind)) continue;
    const Buffer other = make_resource(gpu(), kind)->allocate(size, stream);
    EXPECT_NE(other.device_address(), address) << to_string(kind);
    EXPECT_EQ(other.host_data() != nullptr, kind != MemoryKind::device) << to_string(kind);
  }
  for (const Device& device : devices()) {
    if (device.backend() != "cuda" || device == gpu() || !device.find(GetParam())) continue;
    EXPECT_NE(make_resource(device, GetParam())->allocate(size, Stream(device)).device_address(), address)
        << device.id();
  }
  gate.open();
  held.synchronize();
  await_free(address);
}

// A wait that comes to nothing.
TEST_P(BlockingFrees, GoOnAfterAWaitForWhatHasPassed) {
  const Stream stream = given_out();
  Gate gate;
  gate.open();
  gate.event().wait();
  gate.hold(stream);
  const CUdeviceptr address = close_one();
  resource_->trim(0);
  stream.synchronize();
  await_free(address);
}

}  // namespace
}  // namespace weir::cuda_test
