// SPDX-License-Identifier: Apache-2.0
// Tensors from other frameworks: the same memory, the deleter exactly once in every case, nothing trusted.

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "dlpack_producer.hpp"
#include "fixture.hpp"
#include "sink.hpp"

namespace weir::test {
namespace {

class DlpackImport : public OnMemory {
 protected:
  void SetUp() override {
    OnMemory::SetUp();
    owner = filled(pattern(size, 1));
  }
  /// Deleters that are due have run afterwards.
  void settle(const ResourcePtr& external) const {
    stream.synchronize();
    external->trim(0);
  }

  /// A tensor over all of `owner`, whose deleter throws.
  DLManagedTensorVersioned* ungrateful() {
    static std::int64_t shape = size;
    tensor_ = {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, nullptr, nullptr, 0, Producer(owner).tensor};
    tensor_.dl_tensor.shape = &shape;
    tensor_.deleter = [](DLManagedTensorVersioned*) { throw std::runtime_error("no thanks"); };
    return &tensor_;
  }

  static constexpr std::size_t size = 6000;
  Buffer owner;

 private:
  DLManagedTensorVersioned tensor_{};
};
WEIR_FOR_EACH_ADDRESSABLE(DlpackImport);

TEST_P(DlpackImport, SeesTheSameMemory) {
  Producer producer(owner);
  ResourcePtr external;
  {
    Tensor tensor = from_dlpack(producer.give(), stream);
    external = tensor.buffer().memory_resource();
    EXPECT_EQ(tensor.layout().shape, producer.shape);
    EXPECT_EQ(tensor.layout().strides, producer.strides);
    EXPECT_EQ(tensor.layout().dtype, u8);
    EXPECT_EQ(tensor.buffer().host_data(), owner.host_data());
    EXPECT_TRUE(info().host_accessible || tensor.buffer().device_address() == owner.device_address());
    EXPECT_BYTES(read(tensor.buffer(), stream), pattern(size, 1));
    tensor.buffer().fill(std::uint8_t{9}, stream);
    EXPECT_BYTES(read(owner, stream), repeat(size, 9));
    EXPECT_EQ(producer.deleted(), 0);
  }
  settle(external);
  EXPECT_EQ(producer.deleted(), 1);
}

TEST_P(DlpackImport, LegacyToo) {
  Producer producer(owner);
  Tensor tensor = from_dlpack(producer.give_legacy(), stream);
  EXPECT_FALSE(tensor.buffer().is_read_only());
  EXPECT_BYTES(read(tensor.buffer(), stream), pattern(size, 1));
  const ResourcePtr external = tensor.buffer().memory_resource();
  tensor.buffer().close();
  settle(external);
  EXPECT_EQ(producer.deleted(), 1);
}

TEST_P(DlpackImport, LegacyTensorsMayBeTakenAsReadOnly) {
  Producer producer(owner);
  Tensor tensor = from_dlpack(producer.give_legacy(), stream, LegacyAccess::read_only);
  EXPECT_TRUE(tensor.buffer().is_read_only());
  EXPECT_ERROR(tensor.buffer().fill(std::uint8_t{1}, stream), Errc::permission_denied, "read-only");
  EXPECT_BYTES(read(tensor.buffer(), stream), pattern(size, 1));
}

TEST_P(DlpackImport, ADeleterThatThrowsIsReported) {
  for (const bool refused : {false, true}) {
    DLManagedTensorVersioned* const bad = ungrateful();
    if (refused) {
      bad->dl_tensor.ndim = -1;
      EXPECT_ERROR(from_dlpack(bad, stream), Errc::invalid_argument, "-1 dimensions");
    } else {
      settle(from_dlpack(bad, stream).buffer().memory_resource());
    }
    const auto reports = await_reports(1);
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].where, "the deleter of a DLPack tensor");
    EXPECT_EQ(reports[0].message, "no thanks");
  }
}

TEST_P(DlpackImport, RoundTripOfAnExport) {
  Buffer other = filled(pattern(64, 2));
  Tensor tensor = from_dlpack(other.view(u16, {4, 8}).to_dlpack(stream).release(), stream);
  EXPECT_EQ(tensor.layout().dtype, u16);
  EXPECT_EQ(tensor.layout().shape, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(tensor.buffer().host_data(), other.host_data());
  other.close();
  EXPECT_EQ(resource->stats().live_buffers, 2U);
  EXPECT_BYTES(read(tensor.buffer(), stream), pattern(64, 2));
  const ResourcePtr external = tensor.buffer().memory_resource();
  tensor.buffer().close();
  settle(external);
  EXPECT_EQ(resource->stats().live_buffers, 1U);
}

TEST_P(DlpackImport, DeleterRunsAfterPendingUses) {
  const Stream other(device());
  Producer producer(owner);
  Bytes seen(size);
  Gate gate;
  gate.hold(other);
  ResourcePtr external;
  {
    const Tensor tensor = from_dlpack(producer.give(), stream);
    external = tensor.buffer().memory_resource();
    tensor.buffer().copy_to(seen, other);
  }
  EXPECT_EQ(producer.deleted(), 0);
  gate.open();
  other.synchronize();
  settle(external);
  EXPECT_EQ(producer.deleted(), 1);
  EXPECT_BYTES(seen, pattern(size, 1));
}

TEST_P(DlpackImport, ReadOnlyStaysReadOnly) {
  Producer producer(owner);
  producer.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  Tensor tensor = from_dlpack(producer.give(), stream);
  Buffer& buffer = tensor.buffer();
  EXPECT_TRUE(buffer.is_read_only());
  EXPECT_TRUE(buffer.slice(1, 1).is_read_only());
  Buffer source = filled(pattern(size, 3));
  EXPECT_ERROR(buffer.fill(std::uint8_t{0}, stream), Errc::permission_denied, "read-only");
  EXPECT_ERROR(buffer.copy_from(source, stream), Errc::permission_denied, "read-only");
  EXPECT_ERROR(source.copy_to(buffer, stream), Errc::permission_denied, "read-only");
  EXPECT_ERROR(buffer.copy_from(pattern(size, 3), stream), Errc::permission_denied, "read-only");
  EXPECT_ERROR(tensor.zero(stream), Errc::permission_denied, "Tensor::fill: the destination is read-only");
  EXPECT_BYTES(read(buffer, stream), pattern(size, 1));
  const ManagedTensor again = tensor.to_dlpack(stream);
  EXPECT_NE(again.get()->flags & DLPACK_FLAG_BITMASK_READ_ONLY, 0U);
}

TEST_P(DlpackImport, OffsetsStridesAndUnknownFlags) {
  Producer producer(owner);
  producer.tensor.byte_offset = 100;
  producer.tensor.ndim = 2;
  producer.shape = {10, 20};
  producer.strides = {40, 2};
  producer.flags = ~std::uint64_t{DLPACK_FLAG_BITMASK_READ_ONLY};
  producer.version.minor = 99;
  const Tensor tensor = from_dlpack(producer.give(), stream);
  EXPECT_EQ(tensor.layout().strides, producer.strides);
  const std::size_t begin = tensor.layout().byte_offset;
  const Bytes all = read(tensor.buffer(), stream);
  ASSERT_GE(all.size(), begin + 399);
  EXPECT_BYTES(part(all, begin, 399), part(pattern(size, 1), 100, 399));
}

TEST_P(DlpackImport, NegativeStridesReachDownwards) {
  Producer producer(owner);
  producer.tensor.byte_offset = 99;
  producer.shape = {100};
  producer.strides = {-1};
  const Tensor tensor = from_dlpack(producer.give(), stream);
  EXPECT_EQ(tensor.layout().strides, producer.strides);
  ASSERT_GE(tensor.layout().byte_offset, 99U);
  const Bytes all = read(tensor.buffer(), stream);
  EXPECT_BYTES(part(all, tensor.layout().byte_offset - 99, 100), part(pattern(size, 1), 0, 100));
}

TEST_P(DlpackImport, NullStridesMeanCompact) {
  Producer producer(owner);
  producer.tensor.ndim = 3;
  producer.shape = {2, 3, 4};
  producer.null_strides = true;
  EXPECT_EQ(from_dlpack(producer.give(), stream).layout().strides, (std::vector<std::int64_t>{12, 4, 1}));
}

TEST_P(DlpackImport, NoElements) {
  Producer producer(owner);
  producer.tensor.data = nullptr;
  producer.shape = {0};
  ResourcePtr external;
  {
    const Tensor tensor = from_dlpack(producer.give(), stream);
    EXPECT_EQ(tensor.layout().elements(), 0);
    EXPECT_EQ(tensor.buffer().size(), 0U);
    EXPECT_EQ(tensor.buffer().host_data(), nullptr);
    const auto& label = producer.tensor.device;
    EXPECT_EQ(dlpack_device(tensor.buffer()), (DlpackDevice{label.device_type, label.device_id}));
    EXPECT_EQ(tensor.to_dlpack(stream).get()->dl_tensor.device.device_type, label.device_type);
    external = tensor.buffer().memory_resource();
  }
  settle(external);
  EXPECT_EQ(producer.deleted(), 1);
}

TEST_P(DlpackImport, NoElementsReachNowhere) {
  Producer producer(owner);
  producer.tensor.data = nullptr;
  producer.tensor.ndim = 2;
  producer.shape = {3, 0};
  producer.strides = {-2, std::numeric_limits<std::int64_t>::min()};
  const Tensor tensor = from_dlpack(producer.give(), stream);
  EXPECT_EQ(tensor.layout().elements(), 0);
  EXPECT_EQ(tensor.layout().byte_offset, 0U);
}

TEST_P(DlpackImport, ScalarsAndMissingDeleters) {
  Producer producer(owner);
  producer.tensor.ndim = 0;
  producer.null_shape = producer.null_strides = true;
  DLManagedTensorVersioned* given = producer.give();
  const auto deleter = given->deleter;
  given->deleter = nullptr;
  EXPECT_EQ(from_dlpack(given, stream).layout().elements(), 1);
  stream.synchronize();
  deleter(given);
}

TEST_P(DlpackImport, EveryMalformedFieldIsNamedAndTheDeleterRunsOnce) {
  struct Case {
    const char* names;
    Errc condition;
    void (*spoil)(Producer&);
  };
  const Case cases[] = {
      {"version", Errc::incompatible, [](Producer& p) { p.version.major = DLPACK_MAJOR_VERSION + 1; }},
      {"version", Errc::incompatible, [](Producer& p) { p.version.major = 0; }},
      {"dimensions", Errc::invalid_argument, [](Producer& p) { p.tensor.ndim = -1; }},
      {"dimensions", Errc::invalid_argument, [](Producer& p) { p.tensor.ndim = INT32_MAX; }},
      {"shape", Errc::invalid_argument, [](Producer& p) { p.null_shape = true; }},
      {"negative", Errc::invalid_argument, [](Producer& p) { p.shape[0] = -1; }},
      {"data", Errc::invalid_argument, [](Producer& p) { p.tensor.data = nullptr; }},
      {"type", Errc::invalid_argument, [](Producer& p) { p.tensor.dtype.bits = 0; }},
      {"type", Errc::invalid_argument, [](Producer& p) { p.tensor.dtype.lanes = 0; }},
      {"overflow", Errc::invalid_argument, [](Producer& p) { p.shape[0] = INT64_MAX, p.tensor.dtype.bits = 64; }},
      {"", Errc::invalid_argument, [](Producer& p) { p.strides[0] = INT64_MAX / 2; }},
      {"", Errc::invalid_argument, [](Producer& p) { p.strides[0] = INT64_MIN; }},
      {"byte", Errc::invalid_argument, [](Producer& p) { p.tensor.byte_offset = UINT64_MAX; }},
      {"device", Errc::unsupported, [](Producer& p) { p.tensor.device.device_type = kDLMetal; }},
      {"device", Errc::unsupported, [](Producer& p) { p.tensor.device.device_type = static_cast<DLDeviceType>(0); }},
      {"device", Errc::unsupported, [](Producer& p) { p.tensor.device.device_type = static_cast<DLDeviceType>(-1); }},
      {"device", Errc::unsupported,
       [](Producer& p) {
         p.tensor.device = {kDLCUDA, 12345};
       }},
      {"device", Errc::unsupported,
       [](Producer& p) {
         p.tensor.device = {kDLCUDA, -1};
       }},
  };
  int number = 0;
  for (const Case& c : cases) {
    SCOPED_TRACE(testing::Message() << "case " << number++);
    Producer producer(owner);
    c.spoil(producer);
    EXPECT_ERROR(from_dlpack(producer.give(), stream), c.condition, c.names);
    EXPECT_EQ(producer.deleted(), 1);
    if (std::string_view(c.names) == "version") continue;
    EXPECT_ERROR(from_dlpack(producer.give_legacy(), stream), c.condition, c.names);
    EXPECT_EQ(producer.deleted(), 2);
  }
  EXPECT_ERROR(from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr), stream), Errc::invalid_argument, "null");
  EXPECT_ERROR(from_dlpack(static_cast<DLManagedTensor*>(nullptr), stream), Errc::invalid_argument, "null");
}

TEST_P(DlpackImport, ForeignMajorVersionsAreNotRead) {
  Producer producer(owner);
  producer.version = {DLPACK_MAJOR_VERSION + 1, 0};
  producer.tensor.ndim = 1000;  // whatever they mean there
  producer.null_shape = true;
  producer.tensor.data = reinterpret_cast<void*>(8);
  EXPECT_ERROR(from_dlpack(producer.give(), stream), Errc::incompatible, "version");
  EXPECT_EQ(producer.deleted(), 1);
}

TEST_P(DlpackImport, MovedFromStreamsStillOweTheDeleter) {
  Producer producer(owner);
  Stream gone = stream;
  const Stream taken = std::move(gone);
  EXPECT_ERROR(from_dlpack(producer.give(), gone), Errc::closed, "Stream");  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(producer.deleted(), 1);
}

}  // namespace
}  // namespace weir::test
