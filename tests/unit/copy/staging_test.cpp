// SPDX-License-Identifier: Apache-2.0
// Staging memory that is kept for later copies.
#include "copy/staging.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "weir/host.hpp"
#include "weir/memory_resource.hpp"

namespace weir::detail {
namespace {

TEST(StagingMemory, OfCopiesThatAreOverServesAllLaterOnes) {
  constexpr int more_than_may_be_kept = 3000;  // pieces of 64 KiB
  auto& device = host_device().state();
  const Stream stream(host_device());
  const auto copy = [&] {
    Buffer memory = take_staging(device, 1000);
    const ResourcePtr resource = memory.memory_resource();
    recycle_staging(std::move(memory), stream);
    return resource->stats().allocations;
  };
  const auto first = copy();
  for (int i = 0; i < more_than_may_be_kept; ++i) ASSERT_EQ(copy(), first) << "copy " << i;
}

}  // namespace
}  // namespace weir::detail
