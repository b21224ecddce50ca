// SPDX-License-Identifier: Apache-2.0
// A copy that the driver refuses may have begun, because some take the driver several calls.
#include <gtest/gtest.h>

#include <algorithm>

#include "expect.hpp"
#include "stream/fake_stream.hpp"
#include "weir/buffer.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/block.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

class RefusedCopies : public testing::Test {
 protected:
  ~RefusedCopies() override { fake->finish(fake->issued()); }

  void expect_used_up_to(const Buffer& buffer, std::uint64_t value) const {
    const auto uses = buffer.block()->uses();
    const auto use = std::ranges::find(uses, fake, [](const spi::Point& point) { return point.stream.get(); });
    ASSERT_NE(use, uses.end());
    EXPECT_EQ(use->value, value);
  }

  FakeStream* const fake = new FakeStream;
  const Stream stream{spi::Ref<spi::StreamState>::adopt(fake)};
  const Stream home{host_device()};
  Buffer a = host::make_pageable_resource()->allocate(64, home), b = host::make_pageable_resource()->allocate(64, home);
};

TEST_F(RefusedCopies, CountAsUses) {
  fake->refuse_next();
  EXPECT_ERROR(a.copy_to(b, stream), Errc::unsupported, "refused by hand");
  expect_used_up_to(a, 1);
  expect_used_up_to(b, 1);
  fake->refuse_next();
  EXPECT_ERROR(a.view(u8, {8, 8}).transpose().copy_to(b.view(u8, {8, 8}), stream), Errc::unsupported,
               "refused by hand");
  expect_used_up_to(a, 2);
  expect_used_up_to(b, 2);
}

TEST_F(RefusedCopies, OfFillsToo) {
  fake->refuse_next();
  EXPECT_ERROR(a.fill(std::uint64_t{1}, stream), Errc::unsupported, "refused by hand");
  expect_used_up_to(a, 1);
}

}  // namespace
}  // namespace weir::test
