// SPDX-License-Identifier: Apache-2.0
// Elements of less than a byte from other frameworks, and the end of a tensor that nobody consumed.
#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>

#include "expect.hpp"
#include "weir/dlpack.hpp"
#include "weir/error.hpp"
#include "weir/stream.hpp"

namespace weir::test {
namespace {

/// 8 elements of a type in memory of the host, and how often the deleter ran.
struct Foreign {
  Foreign(DLDataType dtype, std::uint64_t flags) {
    managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    managed.flags = flags;
    managed.dl_tensor = {memory.data(), {kDLCPU, 0}, 1, dtype, &extent, &stride, 0};
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  std::array<std::byte, 64> memory{};
  std::int64_t extent = 8, stride = 1;
  int deleted = 0;
  DLManagedTensorVersioned managed{};
};

TEST(SmallElements, PackedInWholeBytesAreTaken) {
  const Stream stream{host_device()};
  Foreign pairs{{kDLFloat4_e2m1fn, 4, 2}, 0};
  {
    const Tensor tensor = from_dlpack(&pairs.managed, stream);
    EXPECT_EQ(tensor.buffer().size(), 8U);
    EXPECT_EQ(tensor.layout().dtype.to_string(), "float4_e2m1fnx2");
  }
  stream.synchronize();
  EXPECT_EQ(pairs.deleted, 1);
}

TEST(SmallElements, InsideBytesAreRefused) {
  Foreign one{{kDLFloat4_e2m1fn, 4, 1}, 0};
  EXPECT_ERROR(from_dlpack(&one.managed, Stream{host_device()}), Errc::invalid_argument,
               "elements of type float4_e2m1fn are not whole bytes");
  EXPECT_EQ(one.deleted, 1);
}

TEST(SmallElements, PaddedOnesAreRefusedAlsoInPairs) {
  for (const std::uint16_t lanes : {std::uint16_t{1}, std::uint16_t{2}}) {
    Foreign padded{{kDLFloat4_e2m1fn, 4, lanes}, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED};
    EXPECT_ERROR(from_dlpack(&padded.managed, Stream{host_device()}), Errc::unsupported, "padded to whole bytes");
    EXPECT_EQ(padded.deleted, 1);
  }
  Foreign whole{{kDLFloat, 32, 1}, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED};
  EXPECT_EQ(from_dlpack(&whole.managed, Stream{host_device()}).buffer().size(), 32U);
}

TEST(SmallElements, PaddedOnesHaveNoLegacyForm) {
  Foreign padded{{kDLFloat4_e2m1fn, 4, 2}, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED};
  ManagedTensor owner(&padded.managed);
  EXPECT_ERROR(owner.release_legacy(), Errc::incompatible, "padded to whole bytes");
  EXPECT_EQ(padded.deleted, 0);
}

TEST(GiveBack, EndsATensorThatNobodyConsumed) {
  Foreign foreign{{kDLFloat, 32, 1}, 0};
  DLManagedTensor* const legacy = ManagedTensor(&foreign.managed).release_legacy();
  EXPECT_EQ(foreign.deleted, 0);
  give_back(legacy);
  EXPECT_EQ(foreign.deleted, 1);
  give_back(nullptr);
  DLManagedTensor without{};
  give_back(&without);
}

}  // namespace
}  // namespace weir::test
