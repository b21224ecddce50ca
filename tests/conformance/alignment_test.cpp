// SPDX-License-Identifier: Apache-2.0
// Powers of two are honoured or refused by name, never ignored.

#include <cstdint>

#include "fixture.hpp"
#include "weir/spi/segment.hpp"

namespace weir::test {
namespace {

class Alignment : public OnMemory {
 protected:
  static void expect_aligned(const Buffer& buffer, std::size_t alignment) {
    EXPECT_EQ(place_of(buffer) % alignment, 0U) << alignment;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.host_data()) % default_alignment, 0U) << alignment;
  }
};
WEIR_FOR_EACH_MEMORY(Alignment);

TEST_P(Alignment, DefaultIsAtLeast256) {
  std::vector<Buffer> live;
  for (std::size_t bytes = 1; bytes < 2000; bytes += 111) {
    live.push_back(resource->allocate(bytes, stream));
    expect_aligned(live.back(), default_alignment);
  }
}

TEST_P(Alignment, PowersOfTwoUpToTwoMiB) {
  for (std::size_t alignment = 256; alignment <= 2U << 20U; alignment *= 2) {
    const Bytes expected = pattern(1000, static_cast<std::uint32_t>(alignment));
    std::optional<Buffer> buffer;
    try {
      buffer = resource->allocate(1000, stream, alignment);
    } catch (const Error& refused) {  // larger than the memory can honour: named, never ignored
      EXPECT_EQ(refused.code(), Errc::invalid_argument) << refused.what();
      EXPECT_NE(std::string(refused.what()).find(std::to_string(alignment)), std::string::npos) << refused.what();
      EXPECT_GT(alignment, info().alignment) << refused.what();
      continue;
    }
    expect_aligned(*buffer, alignment);
    write(*buffer, expected, stream);
    EXPECT_BYTES(read(*buffer, stream), expected);
  }
}

TEST_P(Alignment, EverySizeAtEveryAlignmentLivesBesideTheOthers) {
  struct Live {
    Buffer buffer;
    Bytes model;
  };
  std::vector<Live> live;
  for (const std::size_t alignment : {std::size_t{256}, std::size_t{4096}, std::size_t{1} << 16U, std::size_t{2} << 20U}) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{255}, std::size_t{257}, std::size_t{4096}}) {
      live.push_back({resource->allocate(bytes, stream, alignment), pattern(bytes, static_cast<unsigned>(live.size()))});
      expect_aligned(live.back().buffer, alignment);
      write(live.back().buffer, live.back().model, stream);
    }
  }
  for (const Live& each : live) EXPECT_BYTES(read(each.buffer, stream), each.model);
  const Buffer twin = live.back().buffer.copy_to(stream);
  EXPECT_BYTES(read(twin, stream), live.back().model);
}

TEST_P(Alignment, SmallerThanTheDefaultIsRoundedUp) {
  for (const std::size_t alignment : {1U, 2U, 64U, 128U}) {
    expect_aligned(resource->allocate(10, stream, alignment), default_alignment);
  }
}

TEST_P(Alignment, NotAPowerOfTwoIsRefused) {
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{3}, std::size_t{255}, std::size_t{384}, SIZE_MAX}) {
    EXPECT_ERROR(resource->allocate(10, stream, alignment), Errc::invalid_argument, "power of two");
    EXPECT_ERROR(resource->allocate(10, stream, alignment), Errc::invalid_argument, std::to_string(alignment));
    EXPECT_ERROR(resource->try_allocate(10, stream, alignment), Errc::invalid_argument, "power of two");
    EXPECT_ERROR(resource->allocate(0, stream, alignment), Errc::invalid_argument, "power of two");
  }
  EXPECT_EQ(resource->stats().allocations, 0U);
}

TEST_P(Alignment, AbsurdIsRefusedOrExhausted) {
  const std::size_t alignment = std::size_t{1} << 63U;
  try {
    (void)resource->allocate(10, stream, alignment);
    ADD_FAILURE() << "no memory is aligned to 2^63";
  } catch (const Error& refused) {
    EXPECT_EQ(refused.code(), Errc::invalid_argument) << refused.what();
  } catch (const OutOfMemory& exhausted) {
    EXPECT_EQ(exhausted.shortage().alignment, alignment);
  }
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(Alignment, SlicesMayBeUnaligned) {
  const Bytes expected = pattern(1000, 5);
  const Buffer buffer = filled(expected);
  const Buffer slice = buffer.slice(3, 500);
  EXPECT_EQ(slice.offset(), 3U);
  EXPECT_BYTES(read(slice, stream), std::span(expected).subspan(3, 500));
}

}  // namespace
}  // namespace weir::test
