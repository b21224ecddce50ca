// SPDX-License-Identifier: Apache-2.0
// Between any two memories, on a stream of either device and on a host stream.

#include <algorithm>
#include <tuple>

#include "fixture.hpp"

namespace weir::test {
namespace {

class CopyMatrix : public Excludable, public testing::WithParamInterface<std::tuple<Memory, Memory>> {
 protected:
  /// One stream of each device that could do the work.
  [[nodiscard]] std::vector<Stream> streams() const {
    std::vector<Device> chosen{host_device()};
    for (const Device& device : {from.device, to.device}) {
      if (std::find(chosen.begin(), chosen.end(), device) == chosen.end()) chosen.push_back(device);
    }
    return {chosen.begin(), chosen.end()};
  }

  const Memory& from = std::get<0>(GetParam());
  const Memory& to = std::get<1>(GetParam());
  ResourcePtr source_resource = from.make();
  ResourcePtr target_resource = to.make();
};

struct PairName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return std::get<0>(info.param).name() + "_to_" + std::get<1>(info.param).name();
  }
};
// The way of the bytes does not depend on who made the buffers; that a stack does not disturb it is shown on a few.
std::vector<Memory> one_stacked_per_backend() {
  std::vector<Memory> chosen;
  for (const Memory& memory : stacked_memories()) {
    const bool a_few = memory.stack->layers > 1 || memory.stack->name == "pool";
    if (a_few && memory.info.kind == memory.device.default_kind()) chosen.push_back(memory);
  }
  return chosen;
}
INSTANTIATE_TEST_SUITE_P(Every, CopyMatrix,
                         testing::Combine(testing::ValuesIn(few_memories()), testing::ValuesIn(few_memories())),
                         PairName());
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CopyMatrix);
INSTANTIATE_TEST_SUITE_P(Stacked, CopyMatrix,
                         testing::Combine(testing::ValuesIn(one_stacked_per_backend()),
                                          testing::ValuesIn(one_stacked_per_backend())),
                         PairName());

TEST_P(CopyMatrix, Whole) {
  for (const Stream& stream : streams()) {
    for (const std::size_t bytes : {1U, 3U, 4U, 256U, 70001U}) {
      const Bytes expected = pattern(bytes, static_cast<std::uint32_t>(bytes));
      Buffer source = source_resource->allocate(bytes, stream);
      Buffer target = target_resource->allocate(bytes, stream);
      write(source, expected, stream);
      target.fill(std::uint8_t{0xcc}, stream);
      source.copy_to(target, stream);
      ASSERT_BYTES(read(target, stream), expected) << "on " << stream.device().id();
    }
  }
}

TEST_P(CopyMatrix, RangesAtOddOffsets) {
  struct Case {
    std::size_t source_offset, target_offset, bytes;
  };
  constexpr Case cases[] = {{0, 1, 1}, {1, 0, 3}, {3, 5, 1000}, {1001, 17, 4096}, {7, 4093, 5000}, {9999, 0, 1}};
  const Bytes content = pattern(10000, 1);
  for (const Stream& stream : streams()) {
    Bytes model = pattern(10000, 2);
    Buffer source = source_resource->allocate(content.size(), stream);
    Buffer target = target_resource->allocate(model.size(), stream);
    write(source, content, stream);
    write(target, model, stream);
    for (const Case& c : cases) {
      target.copy_from(source, c.source_offset, c.target_offset, c.bytes, stream);
      std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(c.source_offset), c.bytes,
                  model.begin() + static_cast<std::ptrdiff_t>(c.target_offset));
    }
    ASSERT_BYTES(read(target, stream), model) << "on " << stream.device().id();
    ASSERT_BYTES(read(source, stream), content) << "on " << stream.device().id();
  }
}

TEST_P(CopyMatrix, MiBsOfOddSize) {
  constexpr std::size_t bytes = (3U << 20U) + 5;
  const Stream stream(from.device);
  const Bytes expected = pattern(bytes, 11);
  Buffer source = source_resource->allocate(bytes + 3, stream);
  Buffer target = target_resource->allocate(bytes + 1, stream);
  source.copy_from(expected, stream, 3);
  source.copy_to(target, 1, 3, bytes, stream);
  Bytes actual(bytes);
  target.copy_to(actual, stream, 1);
  stream.synchronize();
  EXPECT_BYTES(actual, expected);
}

TEST_P(CopyMatrix, ThereAndBackOnBothStreams) {
  const Stream here(from.device);
  const Stream there(to.device);
  const Bytes expected = pattern(12345, 6);
  Buffer source = source_resource->allocate(expected.size(), here);
  Buffer target = target_resource->allocate(expected.size(), there);
  write(source, expected, here);
  there.wait(here.record());
  target.copy_from(source, there);
  here.wait(there.record());
  source.fill(std::uint8_t{0}, here);
  source.copy_from(target, here);
  EXPECT_BYTES(read(source, here), expected);
}

}  // namespace
}  // namespace weir::test
