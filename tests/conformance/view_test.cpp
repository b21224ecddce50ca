// SPDX-License-Identifier: Apache-2.0
// Memory of one backend's device that a device of another backend reaches, because both are one GPU: Vulkan's
// exportable memory on CUDA. On machines without such a pair, weir_conformance_tests_on_one_gpu runs this over the
// modelled driver.

#include <dlpack/dlpack.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "fds.hpp"
#include "fixture.hpp"
#include "modelled_driver.hpp"
#include "same_gpu.hpp"
#include "settle.hpp"
#include "threads.hpp"
#include "weir/dlpack.hpp"
#include "weir/pool.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/view.hpp"
#if WEIR_HAS_CUDA
#include "weir/cuda.hpp"
#endif

namespace weir::test {
namespace {

constexpr std::size_t size = 70001;

class Views : public OnMemory {
 protected:
  /// Memory of earlier tests goes back first: its end waits for the other device.
  void SetUp() override {
    OnMemory::SetUp();
    await_releases();
  }
  [[nodiscard]] static spi::Segment& segment_of(const Buffer& buffer) { return *buffer.location().segment; }
  [[nodiscard]] static spi::Segment* view_of(const Buffer& buffer, const Device& of) {
    return segment_of(buffer).view_of(of.state());
  }
  [[nodiscard]] Buffer there(std::size_t bytes, const Stream& on) const {
    return make_resource(viewer)->allocate(bytes, on);
  }
  [[nodiscard]] std::int32_t label() const {
    return make_resource(viewer)->allocate(1, other).location().segment->dlpack_device;
  }

  Device viewer{*spi::viewer_of(device().state())};
  Stream other{viewer};
};
WEIR_FOR_EACH_MEMORY_OF(viewed, Views);

TEST_P(Views, CopiesGoThroughOneViewOfTheSegment) {
  for (const Stream& on : {other, stream, Stream(host_device())}) {
    const Bytes expected = pattern(size, 3);
    Buffer here = resource->allocate(size, stream), target = there(size, other);
    stream.synchronize();
    write(here, expected, stream);
    on.wait(stream.record());
    on.wait(other.record());
    target.copy_from(here, on);
    EXPECT_BYTES(read(target, on), expected) << on.device().id();
    target.fill(std::uint8_t{7}, 100, 50, on);
    here.copy_from(target, on);
    Bytes changed = expected;
    std::fill_n(changed.begin() + 100, 50, std::byte{7});
    EXPECT_BYTES(read(here, on), changed) << on.device().id();
    spi::Segment* const view = view_of(here, viewer);
    if (!info().host_accessible || on == other) {
      ASSERT_NE(view, nullptr);
      EXPECT_EQ(view->device, &viewer.state());
      EXPECT_EQ(view->size, segment_of(here).size);
    }
    const Buffer slice = here.slice(10, 100);
    here.copy_from(slice, 0, 200, 100, other);
    if (view) {
      EXPECT_EQ(view_of(slice, viewer), view);
    }
    other.synchronize();
  }
}

// Over the model, which counts: one import for a segment, one copy for a copy, and nothing by way of the host.
TEST_P(Views, BuffersOfAKnownSegmentCostOneCallPerCopy) {
  const auto count = reinterpret_cast<std::size_t (*)(const char*)>(find_in_model("fake_cuda_calls"));
  if (!count) GTEST_SKIP() << "real drivers do not count";
  const PoolPtr pool = make_pool(resource, {.initial_bytes = 1 << 20});
  const Buffer first = pool->allocate(size, stream), second = pool->allocate(size, stream);
  Buffer target = there(size, other);
  ASSERT_EQ(&segment_of(first), &segment_of(second));
  stream.synchronize();
  const auto opened = count("cuImportExternalMemory") + (view_of(first, viewer) ? 0 : 1);
  target.copy_from(first, other);
  const auto copies = count("cuMemcpyAsync"), functions = count("cuLaunchHostFunc");
  target.copy_from(second, other);
  (void)second.view(u8, {16}).to_dlpack(other, {.device = DlpackDevice{kDLCUDA, viewer.ordinal()}});
  stream.wait(other.record());
  target.copy_from(first, stream);  // which reaches the target by the other device's helper alone
  stream.synchronize();
  EXPECT_EQ(count("cuMemcpyAsync"), copies + 2);
  EXPECT_EQ(count("cuLaunchHostFunc"), functions);
  EXPECT_EQ(count("cuImportExternalMemory"), opened);
  EXPECT_EQ(count("cuExternalMemoryGetMappedBuffer"), opened);
}

// A second GPU reaches the memory as it reaches that of the first one.
TEST_P(Views, ThroughTheViewADeviceOfTheSameBackendReachesTheMemory) {
  for (const Device& third : devices()) {
    if (third.backend() != viewer.backend() || third == viewer) continue;
    const Stream on(third);
    const Buffer buffer = filled(pattern(size, 4));
    Buffer target = make_resource(third)->allocate(size, on);
    target.copy_from(buffer, on);
    EXPECT_NE(view_of(buffer, viewer), nullptr);
    EXPECT_EQ(view_of(buffer, third), nullptr);
    EXPECT_BYTES(read(target, on), pattern(size, 4));
    return;
  }
  GTEST_SKIP() << "there is no second device of " << viewer.backend();
}

TEST_P(Views, AFillOfTheOtherDeviceIsSeen) {
  Buffer buffer = filled(repeat(size, 0x11));
  for (const std::uint64_t value : {std::uint64_t{0x1122334455667788}, std::uint64_t{0x99}}) {
    buffer.fill(value, 8, 800, other);
    Bytes expected = repeat(size, 0x11);
    for (std::size_t i = 0; i < 800; ++i) expected[8 + i] = static_cast<std::byte>(value >> (i % 8 * 8));
    EXPECT_BYTES(read(buffer, other), expected);
    stream.wait(other.record());
    EXPECT_BYTES(read(buffer, stream), expected);
  }
}

TEST_P(Views, HostBytesGoInAndOutOnTheOtherDevice) {
  const Bytes expected = pattern(size, 5);
  Buffer buffer = filled(repeat(size, 0));
  buffer.copy_from(expected, other);
  Bytes seen(size);
  buffer.copy_to(seen, other);
  other.synchronize();
  EXPECT_BYTES(seen, expected);
  EXPECT_BYTES(read(buffer, stream), expected);
}

// What is staged goes through memory that the stream's device reaches, which is not that of the segment's device.
TEST_P(Views, MemoryOfTheHostGoesInAndOutOnTheOtherDevice) {
  const Bytes expected = pattern(size, 6);
  const Device host = host_device();
  for (const MemoryKind kind : {MemoryKind::pageable, MemoryKind::shared}) {
    Buffer source = make_resource(host, kind)->allocate(size, other), target = source.copy_to(other);
    write(source, expected, other);
    Buffer buffer = resource->allocate(size, stream);
    other.wait(stream.record());
    buffer.copy_from(source, other);
    buffer.copy_to(target, other);
    EXPECT_BYTES(read(target, other), expected);
  }
}

TEST_P(Views, RegionsAreCopied) {
  const Tensor from = filled(pattern(4 * 64 * 48, 6)).view(i32, {64, 48});
  const Tensor to = there(4 * 48 * 64, other).view(i32, {48, 64});
  from.permute({1, 0}).copy_to(to, other);
  const Bytes seen = read(to.buffer(), other), original = read(from.buffer(), stream);
  for (std::size_t row = 0; row < 64; ++row) {
    for (std::size_t column = 0; column < 48; ++column)
      ASSERT_BYTES(part(seen, 4 * (column * 64 + row), 4), part(original, 4 * (row * 48 + column), 4));
  }
}

TEST_P(Views, TheOtherDeviceReadsAfterThisOneWrote) {
  Buffer target = there(size, other);
  Buffer buffer = filled(repeat(size, 0x11));
  target.copy_from(buffer, other);  // opens the view
  other.synchronize();
  Gate gate;
  gate.hold(stream);
  buffer.fill(std::uint8_t{0x22}, stream);
  other.wait(stream.record());
  target.copy_from(buffer, other);
  EXPECT_FALSE(other.done());
  gate.open();
  EXPECT_BYTES(read(target, other), repeat(size, 0x22));
}

TEST_P(Views, ThisDeviceReadsAfterTheOtherWrote) {
  Buffer buffer = filled(repeat(size, 0x11));
  Gate gate;
  gate.hold(other);
  buffer.fill(std::uint8_t{0x22}, other);
  stream.wait(other.record());
  Buffer copy = buffer.copy_to(stream);
  gate.open();
  EXPECT_BYTES(read(copy, stream), repeat(size, 0x22));
}

TEST_P(Views, TwoThreadsOpenOneView) {
  const Buffer buffer = filled(pattern(size, 1));
  std::atomic<int> ready = 0;
  std::array<spi::Segment*, 2> opened{};
  {
    std::vector<Thread> threads;
    for (spi::Segment*& mine : opened) {
      threads.emplace_back([&] {
        ++ready;
        while (ready != 2) std::this_thread::yield();
        mine = &spi::view(viewer.state(), segment_of(buffer));
      });
    }
  }
  EXPECT_EQ(opened[0], opened[1]);
  EXPECT_EQ(view_of(buffer, viewer), opened[0]);
}

TEST_P(Views, EndWithTheMemoryAndLeaveNothing) {
  const auto once = [&] {
    Buffer buffer = filled(pattern(size, 1));
    there(size, other).copy_from(buffer, other);
    const Buffer second = resource->allocate(size, stream);
    there(size, other).copy_from(second, other);
    buffer.close();
  };
  once();  // drivers open files of their own once
  resource->trim(0);
  const auto files = open_fds();
  for (int i = 0; i < 3; ++i) {
    once();
    resource->trim(0);
    EXPECT_FDS(files);
  }
}

TEST_P(Views, WhatIsRefusedIsStagedAndAskedForAgainByName) {
  const auto fail = reinterpret_cast<void (*)(const char*, int, int)>(find_in_model("fake_cuda_fail"));
  if (!fail) GTEST_SKIP() << "real drivers do not fail on demand";
  constexpr int not_supported = 801;
  (void)filled(pattern(16, 1)).copy_to(stream);
  resource->trim(0);
  const auto files = open_fds();
  {
    const Buffer buffer = filled(pattern(size, 1));
    Buffer target = there(size, other);
    fail("cuImportExternalMemory", 1, not_supported);
    const OnLeaving forget([&] { fail("", 0, 0); });
    for (int i = 0; i < 2; ++i) {
      target.copy_from(buffer, other);
      EXPECT_BYTES(read(target, other), pattern(size, 1));
    }
    if (view_of(buffer, viewer)) GTEST_SKIP() << "the segment had a view, which another buffer opened";
    const auto ask = [&] {
      (void)buffer.view(u8, {16}).to_dlpack(other, {.device = DlpackDevice{kDLCUDA, viewer.ordinal()}});
    };
    fail("", 0, 0);
    fail("cuExternalMemoryGetMappedBuffer", 1, not_supported);
    EXPECT_ERROR(ask(), Errc::unsupported, "cuExternalMemoryGetMappedBuffer");
    ask();
    EXPECT_NE(view_of(buffer, viewer), nullptr);
    other.synchronize();
  }
  await_releases();
  resource->trim(0);
  EXPECT_FDS(files);
}

// As memory of a discrete GPU that lies in the host.
TEST_P(Views, WhereTheHostsWritesMayNotBeSeenThereAreNone) {
  Buffer buffer = filled(pattern(size, 1));
  spi::Segment& segment = segment_of(buffer);
  if (segment.view_of(viewer.state())) GTEST_SKIP() << "the segment had a view, which another buffer opened";
  segment.viewable = false;
  const OnLeaving again([&] { segment.viewable = true; });
  Buffer target = there(size, other);
  for (const Stream& on : {other, stream}) {
    on.wait(stream.record());
    target.fill(std::uint8_t{0}, on);
    target.copy_from(buffer, on);
    EXPECT_BYTES(read(target, on), pattern(size, 1));
  }
  buffer.fill(std::uint8_t{7}, other);
  stream.wait(other.record());
  EXPECT_BYTES(read(buffer, stream), repeat(size, 7));
  const auto cuda = DlpackDevice{kDLCUDA, viewer.ordinal()};
  EXPECT_ERROR((void)buffer.view(u8, {16}).to_dlpack(other, {.device = cuda}), Errc::incompatible,
               "copy it to a buffer of that device");
#if WEIR_HAS_CUDA
  EXPECT_ERROR((void)cuda::pointer(buffer), Errc::incompatible, "it lies in the host's memory");
#endif
  EXPECT_EQ(segment.view_of(viewer.state()), nullptr);
  stream.synchronize();
}

TEST_P(Views, MemoryThatTheOtherDeviceUsesIsNotReused) {
  Buffer buffer = filled(pattern(size, 1));
  Buffer target = there(size, other);
  Gate gate;
  gate.hold(other);
  target.copy_from(buffer, other);
  buffer.close();
  for (int i = 0; i < 4; ++i) resource->allocate(size, stream).fill(std::uint8_t{0xff}, stream);
  stream.flush();
  gate.open();
  EXPECT_BYTES(read(target, other), pattern(size, 1));
  stream.synchronize();
}

TEST_P(Views, OverlapsAreFoundUnderBothAddresses) {
  const Buffer buffer = filled(pattern(4096, 1));
  const auto& view = spi::view(viewer.state(), segment_of(buffer));
  const auto address = view.address + buffer.location().offset;
  Buffer again = Buffer::from_handle(
      viewer, address, 4096, [] {}, other);
  EXPECT_ERROR(again.copy_from(buffer, 0, 100, 3000, other), Errc::invalid_argument, "overlap");
  again.copy_from(buffer, 0, 2048, 2048, other);
  other.synchronize();
}

class ViewsAsTensors : public Views {
 protected:
  [[nodiscard]] DlpackDevice named() const { return {label(), viewer.ordinal()}; }
  [[nodiscard]] ManagedTensor exported(const Buffer& buffer, const Stream& consumer) const {
    return buffer.view(u8, {static_cast<std::int64_t>(buffer.size())}).to_dlpack(consumer, {.device = named()});
  }
  [[nodiscard]] Buffer at_address_of(const ManagedTensor& managed) const {
    const auto address = reinterpret_cast<std::uintptr_t>(managed.get()->dl_tensor.data);
    return Buffer::from_handle(
        viewer, address, size, [] {}, other);
  }
};
WEIR_FOR_EACH_MEMORY_OF(viewed, ViewsAsTensors);

TEST_P(ViewsAsTensors, NameTheOtherDeviceAndItsAddress) {
  Buffer buffer = filled(pattern(size, 1));
  const ManagedTensor managed = exported(buffer.slice(256, 1000), other);
  const DLTensor& tensor = managed.get()->dl_tensor;
  EXPECT_EQ(static_cast<std::int32_t>(tensor.device.device_type), label());
  EXPECT_EQ(tensor.device.device_id, viewer.ordinal());
  const spi::Segment* const view = view_of(buffer, viewer);
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data), view->address + buffer.location().offset + 256);
  EXPECT_EQ(managed.get()->flags & DLPACK_FLAG_BITMASK_IS_COPIED, 0U);
#if WEIR_HAS_CUDA
  EXPECT_EQ(cuda::pointer(buffer), view->address + buffer.location().offset);
#endif
  if (!info().host_accessible) {
    EXPECT_EQ(dlpack_device(buffer), named());
    EXPECT_EQ(dlpack_device(resource->allocate(0, stream)), named());
    EXPECT_EQ(buffer.view(u8, {16}).to_dlpack(other).get()->dl_tensor.data,
              reinterpret_cast<void*>(view->address + buffer.location().offset));
  } else {
    EXPECT_EQ(dlpack_device(buffer), (DlpackDevice{kDLCPU, 0}));
    EXPECT_EQ(buffer.view(u8, {16}).to_dlpack(stream).get()->dl_tensor.data, buffer.host_data());
  }
}

TEST_P(ViewsAsTensors, ConsumersSeeWhatWasWrittenBefore) {
  Buffer buffer = filled(repeat(size, 0x11));
  (void)exported(buffer, other);  // opens the view
  Gate gate;
  gate.hold(stream);
  buffer.fill(std::uint8_t{0x22}, stream);
  Tensor consumed = from_dlpack(exported(buffer, other).release(), other);
  EXPECT_FALSE(other.done());
  Bytes seen(size);
  consumed.buffer().copy_to(seen, other);
  gate.open();
  other.synchronize();
  EXPECT_BYTES(seen, repeat(size, 0x22));
}

// A consumer works at the address, on its stream, and weir knows nothing of that work until the deleter runs.
TEST_P(ViewsAsTensors, WhatTheConsumerWroteBeforeTheDeleterIsSeenHere) {
  const Buffer buffer = filled(repeat(size, 0x11));
  Gate gate;
  {
    const ManagedTensor managed = exported(buffer, other);
    Buffer mine = at_address_of(managed);
    gate.hold(other);
    mine.fill(std::uint8_t{0x33}, other);
  }
  buffer.order_after_uses(stream);
  const Buffer copy = buffer.copy_to(stream);
  gate.open();
  EXPECT_BYTES(read(copy, stream), repeat(size, 0x33));
}

TEST_P(ViewsAsTensors, MemoryIsReusedAfterTheConsumersWork) {
  Buffer buffer = filled(pattern(size, 2));
  Buffer target = there(size, other);
  Gate gate;
  {
    const ManagedTensor managed = exported(buffer, other);
    const Buffer mine = at_address_of(managed);
    buffer.close();
    gate.hold(other);
    mine.copy_to(target, other);
  }
  for (int i = 0; i < 4; ++i) resource->allocate(size, stream).fill(std::uint8_t{0xff}, stream);
  stream.flush();
  gate.open();
  EXPECT_BYTES(read(target, other), pattern(size, 2));
  stream.synchronize();
}

TEST_P(ViewsAsTensors, OthersAreRefused) {
  const Buffer buffer = filled(pattern(64, 1));
  for (const DlpackDevice wrong : {DlpackDevice{label(), viewer.ordinal() + 1}, DlpackDevice{kDLCUDAHost, 0}})
    EXPECT_ERROR((buffer.view(u8, {64}).to_dlpack(other, {.device = wrong})), Errc::incompatible, "cannot be exported");
}

TEST_P(ViewsAsTensors, ACopyIsOfTheSameDevice) {
  const Buffer buffer = filled(pattern(64, 1));
  const ManagedTensor managed = buffer.view(u8, {64}).to_dlpack(other, {.device = named(), .copy = DlpackCopy::always});
  EXPECT_NE(managed.get()->flags & DLPACK_FLAG_BITMASK_IS_COPIED, 0U);
  EXPECT_EQ(static_cast<std::int32_t>(managed.get()->dl_tensor.device.device_type), label());
}

}  // namespace
}  // namespace weir::test
