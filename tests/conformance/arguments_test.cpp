// SPDX-License-Identifier: Apache-2.0
// Wrong arguments that other subjects do not have: each is refused by name and changes nothing.

#include <algorithm>
#include <cstdint>

#include "fixture.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class Arguments : public OnMemory {};
WEIR_FOR_EACH_MEMORY(Arguments);

TEST_P(Arguments, PatternSizes) {
  Buffer buffer = filled(pattern(64, 1));
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{5}, std::size_t{16}, SIZE_MAX}) {
    EXPECT_ERROR(buffer.fill_pattern(0, size, 0, 0, stream), Errc::invalid_argument, "1, 2, 4 or 8");
    EXPECT_ERROR(buffer.fill_pattern(0, size, 0, 48, stream), Errc::invalid_argument, std::to_string(size));
  }
  EXPECT_BYTES(read(buffer, stream), pattern(64, 1));
}

TEST_P(Arguments, FillsThatAreNoMultipleOfThePattern) {
  Buffer buffer = filled(pattern(63, 2));
  EXPECT_ERROR(buffer.fill(std::uint16_t{1}, stream), Errc::invalid_argument, "multiple");
  EXPECT_ERROR(buffer.fill(std::uint32_t{1}, 0, 2, stream), Errc::invalid_argument, "multiple");
  EXPECT_ERROR(buffer.fill(std::uint64_t{1}, 0, 60, stream), Errc::invalid_argument, "60");
  EXPECT_BYTES(read(buffer, stream), pattern(63, 2));
}

TEST_P(Arguments, FillsOutside) {
  Buffer buffer = filled(pattern(64, 3));
  EXPECT_ERROR(buffer.fill(std::uint8_t{1}, 0, 65, stream), Errc::invalid_argument, "65");
  EXPECT_ERROR(buffer.fill(std::uint8_t{1}, 64, 1, stream), Errc::invalid_argument, "64");
  EXPECT_ERROR(buffer.fill(std::uint32_t{1}, 61, 4, stream), Errc::invalid_argument, "61");
  EXPECT_ERROR(buffer.fill(std::uint8_t{1}, SIZE_MAX, 2, stream), Errc::invalid_argument, "");
  EXPECT_ERROR(buffer.fill(std::uint8_t{1}, 2, SIZE_MAX, stream), Errc::invalid_argument, "");
  EXPECT_ERROR(buffer.fill(std::uint8_t{1}, 65, 0, stream), Errc::invalid_argument, "65");
  EXPECT_BYTES(read(buffer, stream), pattern(64, 3));
}

TEST_P(Arguments, SlicesOutside) {
  const Buffer buffer = resource->allocate(64, stream);
  EXPECT_ERROR(buffer.slice(0, 65), Errc::invalid_argument, "65");
  EXPECT_ERROR(buffer.slice(64, 1), Errc::invalid_argument, "64");
  EXPECT_ERROR(buffer.slice(65, 0), Errc::invalid_argument, "65");
  EXPECT_ERROR(buffer.slice(SIZE_MAX, 2), Errc::invalid_argument, "");
  EXPECT_ERROR(buffer.slice(2, SIZE_MAX), Errc::invalid_argument, "");
  const Buffer slice = buffer.slice(10, 20);
  EXPECT_ERROR(slice.slice(0, 21), Errc::invalid_argument, "21");
  EXPECT_EQ(slice.slice(20, 0).size(), 0U);
}

TEST_P(Arguments, ViewsOutside) {
  const Buffer buffer = resource->allocate(64, stream);
  EXPECT_EQ(buffer.view(f32, {4, 4}).layout().elements(), 16);
  EXPECT_ERROR((buffer.view(f32, {17})), Errc::invalid_argument, "68");
  EXPECT_ERROR((buffer.view(f32, {16}, 1)), Errc::invalid_argument, "65");
  EXPECT_ERROR((buffer.view(f32, {-1, 2})), Errc::invalid_argument, "-1");
  EXPECT_ERROR((buffer.view(f64, {INT64_MAX, 8})), Errc::invalid_argument, "");
  EXPECT_ERROR(Tensor(buffer.share(), Layout{u8, {2, 2}, {1}, 0}), Errc::invalid_argument, "strides");
  EXPECT_ERROR(Tensor(buffer.share(), Layout{u8, {2}, {-1}, 0}), Errc::invalid_argument, "");
  EXPECT_ERROR(Tensor(Buffer(), Layout::compact(u8, {1})), Errc::closed, "");
}

TEST_P(Arguments, MovedFromStreams) {
  Buffer buffer = filled(pattern(64, 4));
  Buffer other = resource->allocate(64, stream);
  Bytes bytes(64);
  Stream gone = stream;
  const Stream taken = std::move(gone);
  // NOLINTBEGIN(bugprone-use-after-move): that is the subject
  EXPECT_ERROR(gone.device(), Errc::closed, "Stream");
  EXPECT_ERROR(gone.id(), Errc::closed, "Stream");
  EXPECT_ERROR(resource->allocate(0, gone), Errc::closed, "Stream");
  EXPECT_ERROR(resource->allocate(1, gone), Errc::closed, "Stream");
  EXPECT_ERROR(resource->try_allocate(1, gone), Errc::closed, "Stream");
  EXPECT_ERROR(buffer.copy_to(other, gone), Errc::closed, "Stream");
  EXPECT_ERROR(buffer.copy_to(gone), Errc::closed, "Stream");
  EXPECT_ERROR(buffer.copy_from(bytes, gone), Errc::closed, "Stream");
  EXPECT_ERROR(buffer.copy_to(bytes, gone), Errc::closed, "Stream");
  EXPECT_ERROR(buffer.fill(std::uint8_t{1}, gone), Errc::closed, "Stream");
  EXPECT_ERROR(buffer.use_on(gone), Errc::closed, "Stream");
  EXPECT_ERROR(buffer.close(gone), Errc::closed, "Stream");
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_FALSE(buffer.is_closed());
  EXPECT_BYTES(read(buffer, stream), pattern(64, 4));
}

class Factories : public OnDevice {};
WEIR_FOR_EACH_DEVICE(Factories);

TEST_P(Factories, KindsThatTheDeviceLacks) {
  for (int value = 0; value <= static_cast<int>(MemoryKind::external); ++value) {
    const auto kind = static_cast<MemoryKind>(value);
    if (device().find(kind)) continue;
    EXPECT_ERROR(make_resource(device(), kind), Errc::unsupported, to_string(kind));
    EXPECT_ERROR(make_resource(device(), kind), Errc::unsupported, to_string(device().default_kind()));
  }
  EXPECT_ERROR(make_resource(device(), static_cast<MemoryKind>(200)), Errc::unsupported, "");
}

TEST_P(Factories, ExportOfWhatCannotBeExported) {
  for (const KindInfo& info : device().kinds()) {
    if (info.exportable) continue;
    EXPECT_ERROR(make_resource(device(), info.kind, {.exportable = true}), Errc::unsupported, to_string(info.kind));
  }
}

TEST_P(Factories, DefaultKind) {
  const ResourcePtr resource = make_resource(device());
  EXPECT_EQ(resource->allocate(1, stream).kind(), device().default_kind());
  EXPECT_NE(device().find(device().default_kind()), nullptr);
}

TEST_P(Factories, KindsAreToldOnceAndMakeSense) {
  const auto kinds = device().kinds();
  for (const KindInfo& info : kinds) {
    EXPECT_EQ(std::count_if(kinds.begin(), kinds.end(), [&](const KindInfo& k) { return k.kind == info.kind; }), 1);
    EXPECT_GE(info.alignment, default_alignment) << to_string(info.kind);
    EXPECT_EQ(info.alignment & (info.alignment - 1), 0U) << to_string(info.kind);
    EXPECT_GE(info.granularity, 1U);
    EXPECT_NE(info.kind, MemoryKind::external);
    EXPECT_NE(info.dlpack_device, 0);
  }
}

}  // namespace
}  // namespace weir::test
