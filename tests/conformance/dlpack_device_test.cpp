// SPDX-License-Identifier: Apache-2.0
// What an export can be asked for: another device's name, a copy or none, memory that is complete, a loan.

#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "fixture.hpp"
#include "threads.hpp"
#include "weir/dlpack.hpp"

namespace weir::test {
namespace {

constexpr DlpackDevice cpu{kDLCPU, 0};
constexpr std::size_t size = 4096;

DlpackDevice named(const ManagedTensor& managed) {
  const DLDevice& device = managed.get()->dl_tensor.device;
  return {static_cast<std::int32_t>(device.device_type), device.device_id};
}

std::span<const std::byte> host_bytes(const ManagedTensor& managed, std::size_t count = size) {
  return {static_cast<const std::byte*>(managed.get()->dl_tensor.data), count};
}

bool is_copy(const ManagedTensor& managed) { return (managed.get()->flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0; }

class DlpackDevices : public OnMemory {
 protected:
  Tensor bytes(const Buffer& buffer) const { return buffer.view(u8, {static_cast<std::int64_t>(size)}); }
};
WEIR_FOR_EACH_MEMORY(DlpackDevices);

TEST_P(DlpackDevices, TheHostGetsItsOwnMemoryOrACopy) {
  const Buffer buffer = filled(pattern(size, 1));
  const ManagedTensor managed = bytes(buffer).to_dlpack(stream, {.device = cpu});
  stream.synchronize();
  EXPECT_EQ(named(managed), cpu);
  EXPECT_EQ(is_copy(managed), !info().host_accessible);
  if (info().host_accessible) {
    EXPECT_EQ(managed.get()->dl_tensor.data, buffer.host_data());
  }
  EXPECT_BYTES(host_bytes(managed), pattern(size, 1));
}

TEST_P(DlpackDevices, ACopyThatIsForbiddenIsRefused) {
  Buffer buffer = filled(pattern(size, 1));
  const auto ask = [&] { return bytes(buffer).to_dlpack(stream, {.device = cpu, .copy = DlpackCopy::never}); };
  if (info().host_accessible) {
    EXPECT_FALSE(is_copy(ask()));
  } else {
    EXPECT_ERROR(ask(), Errc::incompatible, "without a copy, because the host cannot reach it");
  }
  buffer.close();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(DlpackDevices, DevicesThatTheMemoryIsNotOfAreRefused) {
  Buffer buffer = filled(pattern(size, 1));
  for (const DlpackDevice other : {DlpackDevice{kDLCUDA, 77}, DlpackDevice{kDLROCM, 0}, DlpackDevice{kDLCPU, 1}})
    EXPECT_ERROR(bytes(buffer).to_dlpack(stream, {.device = other}), Errc::incompatible,
                 "(" + std::to_string(other.type) + ", " + std::to_string(other.id) + ")");
  buffer.close();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(DlpackDevices, AfterAWaitTheHostReadsWhatStreamsWrote) {
  const Stream writer(device());
  Buffer buffer = filled(repeat(size, 0x11));
  Gate gate;
  gate.hold(writer);
  buffer.fill(std::uint8_t{0x22}, writer);
  Thread opener([&] { gate.open(); });
  const ManagedTensor managed = bytes(buffer).to_dlpack_after_wait({.device = cpu});
  EXPECT_BYTES(host_bytes(managed), repeat(size, 0x22));
  opener.join();
}

class DlpackToTheHost : public OnMemory {};
WEIR_FOR_EACH_HOST_ACCESSIBLE(DlpackToTheHost);

TEST_P(DlpackToTheHost, WhatTheHostWroteIsThereAfterTheDeleter) {
  const Buffer buffer = filled(repeat(size, 0x11));
  {
    const ManagedTensor managed =
        buffer.view(u8, {static_cast<std::int64_t>(size)}).to_dlpack_after_wait({.device = cpu});
    std::memset(managed.get()->dl_tensor.data, 0x33, size);
  }
  const Buffer copy = buffer.copy_to(stream);
  EXPECT_BYTES(read(copy, stream), repeat(size, 0x33));
}

// A view is over its own bytes alone, also where the host and devices have to be shown what the other wrote.
TEST_P(DlpackToTheHost, WhatADeviceWroteBesideAViewStays) {
  const Buffer buffer = filled(repeat(size, 0x11));
  const Tensor all = buffer.view(u8, {static_cast<std::int64_t>(size)});
  {
    const ManagedTensor view = all.slice(0, {511, {}, -1}).to_dlpack_after_wait({.device = cpu});
    std::memset(static_cast<std::byte*>(view.get()->dl_tensor.data) - 511, 0x33, 512);
    all.slice(0, {2048, {}}).fill(std::uint8_t{0x22}, stream);
    stream.synchronize();
  }
  Bytes expected = repeat(size, 0x11);
  std::fill_n(expected.begin(), 512, std::byte{0x33});
  std::fill(expected.begin() + 2048, expected.end(), std::byte{0x22});
  EXPECT_BYTES(read(buffer.copy_to(stream), stream), expected);
}

TEST_P(DlpackToTheHost, WhatTheHostWroteBesideAViewStays) {
  const Buffer buffer = filled(repeat(size, 0x11));
  const Tensor first = buffer.view(u8, {512}), second = buffer.view(u8, {512}, 2048);
  {
    const ManagedTensor written = first.to_dlpack_after_wait({.device = cpu});
    std::memset(written.get()->dl_tensor.data, 0x33, 512);
    (void)second.to_dlpack_after_wait({.device = cpu});
    (void)second.to_dlpack(stream, {.device = cpu});
    stream.synchronize();
  }
  Bytes expected = repeat(size, 0x11);
  std::fill_n(expected.begin(), 512, std::byte{0x33});
  EXPECT_BYTES(read(buffer.copy_to(stream), stream), expected);
}

class DlpackAddressed : public OnMemory {};
WEIR_FOR_EACH_ADDRESSABLE(DlpackAddressed);

TEST_P(DlpackAddressed, CopiesAreApartFromTheOriginalAndHaveNoGaps) {
  const Buffer buffer = filled(pattern(size, 3));
  const Tensor columns = buffer.view(u8, {64, 64}).slice(1, {.begin = 1, .end = {}, .step = 3}).transpose();
  const ManagedTensor managed = columns.to_dlpack(stream, {.copy = DlpackCopy::always});
  EXPECT_TRUE(is_copy(managed));
  EXPECT_EQ(named(managed), dlpack_device(buffer));
  const DLTensor& out = managed.get()->dl_tensor;
  EXPECT_EQ(out.strides[0], 64);
  EXPECT_EQ(out.strides[1], 1);
  const Tensor back =
      from_dlpack(columns.to_dlpack(stream, {.device = cpu, .copy = DlpackCopy::always}).release(), stream);
  const Bytes all = pattern(size, 3);
  Bytes wanted;
  for (std::size_t column = 1; column < 64; column += 3) {
    for (std::size_t row = 0; row < 64; ++row) wanted.push_back(all[64 * row + column]);
  }
  EXPECT_BYTES(read(back.buffer(), stream), wanted);
}

TEST_P(DlpackAddressed, CopiesComeAfterEveryUse) {
  const Stream writer(device());
  Buffer buffer = filled(repeat(size, 0x11));
  Gate gate;
  gate.hold(writer);
  buffer.fill(std::uint8_t{0x22}, writer);
  const Tensor tensor = buffer.view(u8, {static_cast<std::int64_t>(size)});
  const Tensor copy = from_dlpack(tensor.to_dlpack(stream, {.copy = DlpackCopy::always}).release(), stream);
  gate.open();
  EXPECT_BYTES(read(copy.buffer(), stream), repeat(size, 0x22));
}

TEST_P(DlpackAddressed, ATensorThatEndsGivesItsOwnershipAway) {
  Tensor tensor = resource->allocate(size, stream).view(u8, {16});
  const ManagedTensor managed = std::move(tensor).to_dlpack(stream);
  EXPECT_TRUE(tensor.buffer().is_closed());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  EXPECT_NE(managed.get()->dl_tensor.data, nullptr);
}

TEST_P(DlpackAddressed, ALoanDescribesTheTensorAndOrdersTheStream) {
  const Stream writer(device()), borrower(host_device());
  Buffer buffer = filled(repeat(size, 0x11));
  const Tensor tensor = buffer.view(i32, {8, 16}, 64).transpose();
  Gate gate;
  gate.hold(writer);
  buffer.fill(std::uint8_t{0x22}, writer);
  BorrowedTensor lent = tensor.lend_dlpack(borrower);
  const auto& out = *static_cast<const DLTensor*>(lent.get());
  EXPECT_EQ((DlpackDevice{static_cast<std::int32_t>(out.device.device_type), out.device.device_id}),
            dlpack_device(buffer));
  EXPECT_EQ(out.ndim, 2);
  EXPECT_EQ(out.shape, tensor.layout().shape.data());
  EXPECT_EQ(out.strides, tensor.layout().strides.data());
  EXPECT_EQ(out.dtype.bits, 32);
  EXPECT_EQ(out.byte_offset, 0U);
  const auto address = reinterpret_cast<std::uintptr_t>(out.data);
  EXPECT_EQ(address, buffer.host_data() ? reinterpret_cast<std::uintptr_t>(buffer.host_data() + 64)
                                        : buffer.device_address() + 64);
  EXPECT_FALSE(borrower.done());
  gate.open();
  borrower.synchronize();
  if (buffer.host_data()) {
    const auto* const seen = static_cast<const std::byte*>(out.data);
    EXPECT_BYTES(std::vector<std::byte>(seen, seen + 512), repeat(512, 0x22));
  }
  EXPECT_BYTES(read(buffer, borrower), repeat(size, 0x22));
}

TEST_P(DlpackAddressed, ALoanOfReadOnlyMemoryIsRefused) {
  const Buffer buffer = filled(repeat(size, 0x11));
  const Tensor tensor = from_dlpack(buffer.view(u8, {64}).to_dlpack(stream, {.read_only = true}).release(), stream);
  EXPECT_TRUE(tensor.buffer().is_read_only());
  EXPECT_ERROR(tensor.lend_dlpack(stream), Errc::incompatible,
               "Tensor::lend_dlpack: a DLTensor cannot say that a tensor is read-only");
}

}  // namespace
}  // namespace weir::test
