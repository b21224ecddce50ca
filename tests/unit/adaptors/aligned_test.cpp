// SPDX-License-Identifier: Apache-2.0
// The alignment that upstream is asked for, and that buffers have.

#include "weir/adaptors/aligned.hpp"

#include <gtest/gtest.h>

#include "expect.hpp"
#include "scripted.hpp"

namespace weir::test {
namespace {

class AlignedTo : public testing::Test {
 protected:
  std::shared_ptr<Scripted> upstream = std::make_shared<Scripted>();
  Stream stream{host_device()};
};

TEST_F(AlignedTo, TheGreaterOfBothIsAsked) {
  const auto aligned = make_aligned(upstream, 4096);
  const Buffer usual = aligned->allocate(10, stream);
  const Buffer more = aligned->allocate(10, stream, 65536);
  const Buffer less = aligned->allocate(10, stream, 512);
  ASSERT_EQ(upstream->asked().size(), 3U);
  EXPECT_EQ(upstream->asked()[0].alignment, 4096U);
  EXPECT_EQ(upstream->asked()[1].alignment, 65536U);
  EXPECT_EQ(upstream->asked()[2].alignment, 4096U);
  EXPECT_EQ(upstream->asked()[0].bytes, 10U) << "no more bytes than asked for";
  EXPECT_EQ(usual.device_address() % 4096, 0U);
  EXPECT_EQ(more.device_address() % 65536, 0U);
  EXPECT_EQ(less.device_address() % 4096, 0U);
}

TEST_F(AlignedTo, OnlyFromTheThresholdOn) {
  const auto aligned = make_aligned(upstream, 1 << 21, 1000);
  (void)aligned->allocate(999, stream);
  (void)aligned->allocate(1000, stream);
  ASSERT_EQ(upstream->asked().size(), 2U);
  EXPECT_EQ(upstream->asked()[0].alignment, default_alignment);
  EXPECT_EQ(upstream->asked()[1].alignment, 1U << 21U);
}

TEST_F(AlignedTo, OutOfMemoryNamesWhatTheCallerAsked) {
  upstream->follow([](const auto&) { return false; });
  try {
    (void)make_aligned(upstream, 4096)->allocate(10, stream, 512);
    FAIL() << "upstream refused";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().alignment, 512U);
    EXPECT_EQ(error.shortage().resource, "aligned(scripted)");
  }
}

TEST_F(AlignedTo, WhatIsNoAlignmentIsRefused) {
  for (const std::size_t wrong : {std::size_t{0}, std::size_t{3}, std::size_t{4097}, std::size_t{1} << 31U}) {
    EXPECT_ERROR(make_aligned(upstream, wrong), Errc::invalid_argument, std::to_string(wrong));
  }
  EXPECT_ERROR(make_aligned(nullptr, 256), Errc::invalid_argument, "upstream");
}

}  // namespace
}  // namespace weir::test
