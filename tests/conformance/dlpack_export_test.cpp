// SPDX-License-Identifier: Apache-2.0
// Tensors that other frameworks get: the right label and address, memory pinned until the deleter, in stream order.

#include <dlpack/dlpack.h>

#include <cstdint>

#include "fixture.hpp"
#include "same_gpu.hpp"
#include "threads.hpp"
#include "weir/dlpack.hpp"

namespace weir::test {
namespace {

class DlpackExport : public OnMemory {
 protected:
  static constexpr std::size_t size = 4096;

  void scribble() const {
    for (int i = 0; i < 8; ++i) resource->allocate(size, stream).fill(std::uint8_t{0xff}, stream);
    stream.synchronize();
  }
};
WEIR_FOR_EACH_ADDRESSABLE(DlpackExport);

TEST_P(DlpackExport, DescribesTheTensor) {
  const Buffer buffer = resource->allocate(1000, stream);
  const ManagedTensor managed = buffer.view(f32, {3, 5, 7}, 8).to_dlpack(stream);
  const DLManagedTensorVersioned& m = *managed.get();
  EXPECT_EQ(m.version.major, static_cast<std::uint32_t>(DLPACK_MAJOR_VERSION));
  EXPECT_GE(m.version.minor, 2U);  // strides are never null
  EXPECT_EQ(m.flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0U);
  EXPECT_NE(m.deleter, nullptr);
  const DLTensor& t = m.dl_tensor;
  EXPECT_EQ(static_cast<std::int32_t>(t.device.device_type), info().dlpack_device);
  EXPECT_EQ(static_cast<std::int32_t>(t.device.device_type), dlpack_device(buffer).type);
  EXPECT_EQ(t.device.device_id, dlpack_device(buffer).id);
  ASSERT_EQ(t.ndim, 3);
  EXPECT_EQ(std::vector<std::int64_t>(t.shape, t.shape + 3), (std::vector<std::int64_t>{3, 5, 7}));
  ASSERT_NE(t.strides, nullptr);
  EXPECT_EQ(std::vector<std::int64_t>(t.strides, t.strides + 3), (std::vector<std::int64_t>{35, 7, 1}));
  EXPECT_EQ(t.dtype.code, kDLFloat);
  EXPECT_EQ(t.dtype.bits, 32);
  EXPECT_EQ(t.dtype.lanes, 1);
  EXPECT_EQ(t.byte_offset, 0U);
  const auto address = reinterpret_cast<std::uintptr_t>(t.data);
  EXPECT_EQ(address, buffer.host_data() ? reinterpret_cast<std::uintptr_t>(buffer.host_data() + 8)
                                        : buffer.device_address() + 8);
}

TEST_P(DlpackExport, HostMemoryIsLabelledForTheHost) {
  const Buffer buffer = resource->allocate(1, stream);
  const std::int32_t type = dlpack_device(buffer).type;
  const bool for_host = type == kDLCPU || type == kDLCUDAHost || type == kDLCUDAManaged;
  EXPECT_EQ(for_host, buffer.is_host_accessible()) << type;
  EXPECT_TRUE(!for_host || dlpack_device(buffer).id == 0);
}

TEST_P(DlpackExport, PinsTheMemoryUntilTheDeleter) {
  Buffer buffer = filled(pattern(size, 1));
  ManagedTensor managed = buffer.view(u8, {static_cast<std::int64_t>(size)}).to_dlpack(stream);
  buffer.close();
  scribble();
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  if (info().host_accessible) {
    const auto* data = static_cast<const std::byte*>(managed.get()->dl_tensor.data);
    EXPECT_BYTES(std::span(data, size), pattern(size, 1));
  }
  DLManagedTensorVersioned* taken = managed.release();
  EXPECT_EQ(managed.get(), nullptr);
  Thread([taken] { taken->deleter(taken); }).join();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(DlpackExport, UnconsumedTensorsGiveTheMemoryBack) {
  {
    Buffer buffer = resource->allocate(size, stream);
    ManagedTensor first = buffer.view(u8, {16}).to_dlpack(stream);
    ManagedTensor second = buffer.view(u8, {16}).to_dlpack(stream);
    buffer.close();
    first = std::move(second);
    EXPECT_EQ(resource->stats().live_buffers, 1U);
  }
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(DlpackExport, OutlivesResourceAndStream) {
  DLManagedTensorVersioned* taken = [this] {
    const Stream own(device());
    return GetParam().make()->allocate(size, own).view(u8, {16}).to_dlpack(own).release();
  }();
  resource.reset();
  taken->deleter(taken);
}

TEST_P(DlpackExport, ConsumersWorkComesAfterEveryUse) {
  const Stream writer(device());
  const Stream consumer(host_device());
  Buffer buffer = filled(repeat(size, 0x11));
  Gate gate;
  gate.hold(writer);
  buffer.fill(std::uint8_t{0x22}, writer);
  const ManagedTensor managed = buffer.view(u8, {16}).to_dlpack(consumer);
  EXPECT_FALSE(consumer.done());
  Bytes seen(size);
  buffer.copy_to(seen, consumer);
  gate.open();
  consumer.synchronize();
  EXPECT_BYTES(seen, repeat(size, 0x22));
}

TEST_P(DlpackExport, AConsumerOnTheStreamOfTheMemoryWaitsForOtherWriters) {
  const Stream writer(device());
  Buffer buffer = filled(repeat(size, 0x11));
  Gate gate;
  gate.hold(writer);
  buffer.fill(std::uint8_t{0x22}, writer);
  const ManagedTensor managed = buffer.view(u8, {16}).to_dlpack(stream);
  EXPECT_FALSE(stream.done());
  Bytes seen(size);
  buffer.copy_to(seen, stream);
  gate.open();
  stream.synchronize();
  EXPECT_BYTES(seen, repeat(size, 0x22));
}

class DlpackExportToTheHost : public DlpackExport {};
WEIR_FOR_EACH_HOST_ACCESSIBLE(DlpackExportToTheHost);

TEST_P(DlpackExportToTheHost, ReuseComesAfterTheConsumersWork) {
  const Stream consumer(host_device());
  Buffer buffer = filled(pattern(size, 2));
  DLManagedTensorVersioned* taken = buffer.view(u8, {16}).to_dlpack(consumer).release();
  buffer.close();
  Bytes seen(size);
  Gate gate;
  gate.hold(consumer);
  const auto* data = static_cast<const std::byte*>(taken->dl_tensor.data);
  consumer.call([&seen, data] { std::copy_n(data, seen.size(), seen.begin()); });
  taken->deleter(taken);
  scribble();
  gate.open();
  consumer.synchronize();
  EXPECT_BYTES(seen, pattern(size, 2));
}

TEST_P(DlpackExport, NoElementsMeansNullData) {
  const Buffer empty = resource->allocate(0, stream);
  for (const auto& shape : {std::vector<std::int64_t>{0}, {3, 0, 2}}) {
    const ManagedTensor managed = empty.view(f64, shape).to_dlpack(stream);
    EXPECT_EQ(managed.get()->dl_tensor.data, nullptr);
    EXPECT_EQ(managed.get()->dl_tensor.byte_offset, 0U);
    EXPECT_NE(managed.get()->deleter, nullptr);
    EXPECT_EQ(managed.get()->dl_tensor.shape[0], shape[0]);
  }
}

TEST_P(DlpackExport, Scalars) {
  const Buffer buffer = resource->allocate(4, stream);
  const ManagedTensor managed = buffer.view(f32, {}).to_dlpack(stream);
  EXPECT_EQ(managed.get()->dl_tensor.ndim, 0);
  EXPECT_NE(managed.get()->dl_tensor.data, nullptr);
}

TEST_P(DlpackExport, ReadOnlyIsFlaggedAndHasNoLegacyForm) {
  const Buffer buffer = resource->allocate(16, stream);
  ManagedTensor managed = buffer.view(u8, {16}).to_dlpack(stream, {.read_only = true});
  EXPECT_NE(managed.get()->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0U);
  EXPECT_ERROR(managed.release_legacy(), Errc::incompatible, "read-only");
}

TEST_P(DlpackExport, LegacyIsTheSameTensor) {
  Buffer buffer = resource->allocate(64, stream);
  ManagedTensor managed = buffer.view(i16, {4, 8}).to_dlpack(stream);
  const DLTensor versioned = managed.get()->dl_tensor;
  DLManagedTensor* legacy = managed.release_legacy();
  ASSERT_NE(legacy, nullptr);
  EXPECT_EQ(managed.get(), nullptr);
  EXPECT_EQ(legacy->dl_tensor.data, versioned.data);
  EXPECT_EQ(legacy->dl_tensor.ndim, 2);
  EXPECT_EQ(legacy->dl_tensor.shape[1], 8);
  EXPECT_EQ(legacy->dl_tensor.strides[0], 8);
  EXPECT_EQ(legacy->dl_tensor.dtype.bits, 16);
  buffer.close();
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  legacy->deleter(legacy);
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  EXPECT_ERROR(managed.release_legacy(), Errc::closed, "already released");
}

TEST_P(DlpackExport, ClosedBuffersAndMovedStreamsAreRefused) {
  Tensor tensor = resource->allocate(16, stream).view(u8, {16});
  Stream gone = stream;
  const Stream taken = std::move(gone);
  EXPECT_ERROR(tensor.to_dlpack(gone), Errc::closed, "Stream");  // NOLINT(bugprone-use-after-move)
  tensor.buffer().close();
  EXPECT_ERROR(tensor.to_dlpack(stream), Errc::closed, "");
  EXPECT_ERROR(dlpack_device(tensor.buffer()), Errc::closed, "");
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

class DlpackRefused : public OnMemory {};
WEIR_FOR_EACH_MEMORY_OF(unviewed, DlpackRefused);

TEST_P(DlpackRefused, MemoryThatOnlyVulkanReaches) {
  Buffer buffer = filled(pattern(64, 1));
  EXPECT_EQ(dlpack_device(buffer).type, kDLVulkan);
  EXPECT_EQ(dlpack_device(buffer).id, device().ordinal());
  EXPECT_ERROR((buffer.view(u8, {64}).to_dlpack(stream)), Errc::unsupported, to_string(info().kind));
  EXPECT_EQ(buffer.view(u8, {0}).to_dlpack(stream).get()->dl_tensor.data, nullptr);
  EXPECT_BYTES(read(buffer, stream), pattern(64, 1));
  buffer.close();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

}  // namespace
}  // namespace weir::test
