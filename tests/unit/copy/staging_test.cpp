// SPDX-License-Identifier: Apache-2.0
// Staging memory and streams that are kept for later copies.
#include "copy/staging.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "stream/fake_stream.hpp"
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

// The stream's last owner is the call that asks how far it is. Its end may ask for what is kept, as a failure sink may.
TEST(StagingHelpers, EndOutsideOfTheLock) {
  auto& device = host_device().state();
  forget_staging(device);  // of earlier tests
  auto* const helper = new test::FakeStream;
  bool ended = false;
  helper->behaviour.on_poll = [&] { forget_staging(device); };  // as another thread may do at that moment
  helper->behaviour.on_end = [&] {
    recycle_helper(take_helper(device));
    ended = true;
  };
  helper->put(test::FakeStream::fill());
  recycle_helper(Stream(spi::Ref<spi::StreamState>::adopt(helper)));
  (void)take_helper(device);
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace weir::detail
