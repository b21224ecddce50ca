// SPDX-License-Identifier: Apache-2.0
// The names of memory that is joined here from what others sent.
#include "ipc/foreign_memory.hpp"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "weir/host.hpp"
#include "weir/spi/backend.hpp"

namespace weir::test {
namespace {

using SegmentRef = spi::Ref<spi::Segment>;

struct Memory final : spi::Segment {
  explicit Memory(spi::DeviceState& of) { device = &of; }
};

/// A device whose backend joins memory.
struct JoiningDevice final : spi::DeviceState {
  JoiningDevice() {
    table = *host_device().state().backend;
    segments = *table.segments;
    segments.join = [](spi::DeviceState& of, std::span<spi::Segment* const>) -> spi::Segment* {
      return new Memory(of);
    };
    table.segments = &segments;
    backend = &table;
  }
  spi::Backend table;
  spi::SegmentOps segments;
};

TEST(ForeignMemory, ThatIsJoinedIsNamedByItsPartsAndTheirOrder) {
  auto& device = *new JoiningDevice;  // devices are never destroyed
  const auto part = [&] { return SegmentRef::adopt(new Memory(device)); };
  const SegmentRef first = part(), second = part(), third = part();
  const auto name = [&](const std::vector<spi::Segment*>& parts) { return detail::join_memory(device, parts)->id(); };
  const auto both = name({first.get(), second.get()});
  EXPECT_EQ(name({first.get(), second.get()}), both);
  EXPECT_NE(name({second.get(), first.get()}), both) << "the bytes lie in another order";
  EXPECT_NE(name({first.get(), third.get()}), both);
  EXPECT_NE(name({first.get(), second.get(), third.get()}), both);
  EXPECT_NE(name({first.get()}), both);
}

}  // namespace
}  // namespace weir::test
