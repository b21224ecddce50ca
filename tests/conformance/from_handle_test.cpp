// SPDX-License-Identifier: Apache-2.0
// Memory that others own: used like any other, given back exactly once and not before its last use.

#include <atomic>
#include <cstdint>
#include <memory>

#include "fixture.hpp"
#include "upstreams.hpp"

namespace weir::test {
namespace {

/// Memory with an address, adopted from a buffer that keeps it: by its device, or by the host where only that has one.
class FromHandle : public OnMemory {
 protected:
  void SetUp() override {
    OnMemory::SetUp();
    owner = filled(pattern(size, 1));
    if (device().backend() == "vulkan") {
      home = host_device();
      address = reinterpret_cast<std::uintptr_t>(owner.host_data());
    } else {
      address = owner.device_address();
    }
  }
  [[nodiscard]] Buffer adopt(std::size_t bytes, const Stream& on) {
    return Buffer::from_handle(
        home, address, bytes, [count = released] { ++*count; }, on);
  }
  /// Wait until releases that were due have run; memory of the device's kinds is given back by one path.
  void settle(const ResourcePtr& external) const {
    stream.synchronize();
    external->trim(0);
  }

  static constexpr std::size_t size = 5000;
  std::shared_ptr<std::atomic<int>> released = std::make_shared<std::atomic<int>>(0);  // outlives late releases
  Buffer owner;
  Device home = device();
  std::uint64_t address = 0;
};
WEIR_FOR_EACH_ADDRESSABLE(FromHandle);

TEST_P(FromHandle, SeesTheSameBytes) {
  Buffer buffer = adopt(size, stream);
  EXPECT_EQ(buffer.size(), size);
  EXPECT_EQ(buffer.device(), home);
  EXPECT_EQ(buffer.kind(), MemoryKind::external);
  EXPECT_EQ(buffer.device_address(), address);
  EXPECT_EQ(buffer.host_data(), owner.host_data());
  EXPECT_BYTES(read(buffer, stream), pattern(size, 1));
  buffer.fill(std::uint8_t{7}, 10, 100, stream);
  Bytes model = pattern(size, 1);
  std::fill_n(model.begin() + 10, 100, std::byte{7});
  EXPECT_BYTES(read(owner, stream), model);
}

TEST_P(FromHandle, ReleasesOnceAfterTheLastOwner) {
  Buffer buffer = adopt(size, stream);
  const ResourcePtr external = buffer.memory_resource();
  Buffer share = buffer.share();
  Buffer slice = buffer.slice(1, 10);
  buffer.close();
  share.close();
  settle(external);
  EXPECT_EQ(*released, 0);
  slice.close();
  settle(external);
  EXPECT_EQ(*released, 1);
  slice.close();
  settle(external);
  EXPECT_EQ(*released, 1);
}

TEST_P(FromHandle, ReleasesAfterPendingUses) {
  const Stream other(device());
  Buffer buffer = adopt(size, stream);
  const ResourcePtr external = buffer.memory_resource();
  Bytes seen(size);
  Gate gate;
  gate.hold(other);
  buffer.copy_to(seen, other);
  buffer.close();
  EXPECT_EQ(*released, 0);
  gate.open();
  other.synchronize();
  settle(external);
  EXPECT_EQ(*released, 1);
  EXPECT_BYTES(seen, pattern(size, 1));
}

TEST_P(FromHandle, ReleasesAfterItsAllocationStream) {
  const Stream other(host_device());
  Gate gate;
  Buffer buffer = adopt(size, other);
  const ResourcePtr external = buffer.memory_resource();
  gate.hold(other);
  buffer.close();
  EXPECT_EQ(*released, 0);
  gate.open();
  other.synchronize();
  settle(external);
  EXPECT_EQ(*released, 1);
}

TEST_P(FromHandle, NoReleaseIsFine) {
  Buffer buffer = Buffer::from_handle(home, address, 10, {}, stream);
  EXPECT_BYTES(read(buffer, stream), part(pattern(size, 1), 0, 10));
}

TEST_P(FromHandle, RefusalsDoNotRelease) {
  const auto release = [count = released] { ++*count; };
  EXPECT_ERROR(Buffer::from_handle(home, 0, 10, release, stream), Errc::invalid_argument, "10 bytes");
  EXPECT_ERROR(Buffer::from_handle(home, address, SIZE_MAX, release, stream), Errc::invalid_argument, "address");
  Stream gone = stream;
  const Stream taken = std::move(gone);
  EXPECT_ERROR(Buffer::from_handle(home, address, 10, release, gone), Errc::closed, "Stream");  // NOLINT
  EXPECT_EQ(*released, 0);
}

TEST_P(FromHandle, CopiesComeFromTheDeviceItself) {
  const Buffer buffer = adopt(size, stream);
  const Buffer copy = buffer.copy_to(stream);
  EXPECT_EQ(copy.device(), home);
  EXPECT_BYTES(read(copy, stream), pattern(size, 1));
}

TEST_P(FromHandle, OthersMayStandOverItsResource) {
  Buffer buffer = adopt(size, stream);
  expect_serves_others(buffer.memory_resource(), stream);
  EXPECT_BYTES(read(buffer, stream), pattern(size, 1));
}

// What is released may close the buffer that took the place of the released one.
TEST_P(FromHandle, TheReleaseSeesTheBufferThatIsAssigned) {
  Buffer current, next = filled(pattern(100, 2));
  const std::uint64_t its_address = next.device_address();
  bool was_new = false;
  current = Buffer::from_handle(
      home, address, size,
      [&] {
        was_new = !current.is_closed() && current.size() == 100 && current.device_address() == its_address;
        current.close();
      },
      stream);
  const ResourcePtr external = current.memory_resource();
  current = std::move(next);
  settle(external);
  EXPECT_TRUE(was_new);
  EXPECT_TRUE(current.is_closed());
}

class FromHandleRefused : public OnMemory {};
WEIR_FOR_EACH_UNADDRESSABLE(FromHandleRefused);

TEST_P(FromHandleRefused, VulkanBuffersHaveNoPlainAddress) {
  int released = 0;
  EXPECT_ERROR(Buffer::from_handle(
                   device(), 0x10000, 10, [&] { ++released; }, stream),
               Errc::unsupported, "address");
  EXPECT_EQ(released, 0);
}

}  // namespace
}  // namespace weir::test
