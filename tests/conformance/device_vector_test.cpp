// SPDX-License-Identifier: Apache-2.0
// Vectors in all memories against std::vector, what a refused call leaves, and who keeps the memory.

#include "weir/device_vector.hpp"

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "fixture.hpp"
#include "weir/adaptors/limiting.hpp"

namespace weir::test {
namespace {

using Numbers = std::vector<std::uint32_t>;

Numbers counted(std::size_t count, std::uint32_t first = 0) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

Numbers numbers_of(const DeviceVector<std::uint32_t>& vector, const Stream& stream) {
  Numbers numbers(vector.size());
  vector.copy_to(numbers, stream);
  stream.synchronize();
  return numbers;
}

class DeviceVectors : public OnMemory {};
WEIR_FOR_EACH_MEMORY(DeviceVectors);

TEST_P(DeviceVectors, HoldWhatTheyAreMadeOf) {
  const Numbers numbers = counted(100);
  const DeviceVector<std::uint32_t> vector(resource, numbers, stream);
  EXPECT_EQ(vector.size(), 100U);
  EXPECT_EQ(vector.capacity(), 100U);
  EXPECT_FALSE(vector.empty());
  EXPECT_EQ(numbers_of(vector, stream), numbers);
  EXPECT_EQ(vector.wait_for_element(99, stream), 99U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(vector.data()), vector.buffer().device_address());
  const Tensor view = vector.view();
  EXPECT_EQ(view.layout().dtype, u32);
  EXPECT_EQ(view.layout().shape, (std::vector<std::int64_t>{100}));
}

TEST_P(DeviceVectors, AgreeWithAVector) {
  std::mt19937 random(5);
  const auto below = [&random](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  DeviceVector<std::uint32_t> vector(resource, 0, stream);
  Numbers model;
  for (std::uint32_t round = 0; round < 60; ++round) {
    const Numbers some = counted(below(40), 1000 * round);
    switch (below(7)) {
      case 0:
        vector.reserve(model.size() + some.size(), stream);
        EXPECT_GE(vector.capacity(), model.size() + some.size());
        break;
      case 1:
        vector.shrink_to_fit(stream);
        EXPECT_EQ(vector.capacity(), model.size());
        break;
      case 2: {
        const std::size_t known = std::min(model.size(), some.size());
        vector.resize(some.size(), stream);
        if (known < some.size()) vector.copy_from(std::span(some).subspan(known), stream, known);
        model.resize(known);
        model.insert(model.end(), some.begin() + static_cast<std::ptrdiff_t>(known), some.end());
        break;
      }
      case 3:
        if (model.empty()) break;
        model.back() = round;
        vector.set_element(model.size() - 1, round, stream);
        break;
      default: vector.push(some, stream); model.insert(model.end(), some.begin(), some.end());
    }
    ASSERT_EQ(numbers_of(vector, stream), model) << "round " << round;
  }
  vector.clear(stream);
  EXPECT_TRUE(vector.empty());
}

TEST_P(DeviceVectors, GrowByDoublingAndNeverMoveForNothing) {
  DeviceVector<std::uint32_t> vector(resource, counted(100), stream);
  vector.push(counted(1), stream);
  EXPECT_EQ(vector.capacity(), 200U);
  const auto* const block = vector.buffer().block();
  vector.push(counted(99), stream);
  vector.resize(50, stream);
  vector.resize(200, stream);
  vector.reserve(10, stream);
  EXPECT_EQ(vector.buffer().block(), block);
  vector.push(counted(300), stream);
  EXPECT_EQ(vector.size(), 500U);
  EXPECT_EQ(vector.capacity(), 500U) << "more than double";
}

TEST_P(DeviceVectors, ARefusedCallChangesNothing) {
  const ResourcePtr limited = make_limiting(resource, 3000);
  DeviceVector<std::uint32_t> vector(limited, counted(300), stream);
  const auto unchanged = [&] {
    EXPECT_EQ(vector.size(), 300U);
    EXPECT_EQ(numbers_of(vector, stream), counted(300));
  };
  EXPECT_THROW(vector.resize(1000, stream), OutOfMemory);
  unchanged();
  EXPECT_THROW(vector.reserve(std::size_t{1} << 62, stream), OutOfMemory) << "more bytes than there are numbers for";
  unchanged();
  EXPECT_THROW(vector.push(counted(500), stream), OutOfMemory);
  unchanged();
  vector.push(counted(100), stream);
  EXPECT_EQ(vector.capacity(), 400U) << "there is not memory for twice as much";
  EXPECT_EQ(resource->stats().live_buffers, 1U);
}

TEST_P(DeviceVectors, ViewsKeepTheMemoryThatTheyWereMadeFor) {
  DeviceVector<std::uint32_t> vector(resource, counted(10), stream);
  const Tensor before = vector.view();
  vector.push(counted(10), stream);
  vector.set_element(0, 77, stream);
  std::uint32_t first = 1;
  before.buffer().copy_to(std::as_writable_bytes(std::span(&first, 1)), stream);
  stream.synchronize();
  EXPECT_EQ(first, 0U);
  EXPECT_EQ(resource->stats().live_buffers, 2U);
}

TEST_P(DeviceVectors, AddTheirOwnElements) {
  if (!info().host_accessible) return;  // the host has no span over them
  DeviceVector<std::uint32_t> vector(resource, counted(10), stream);
  stream.synchronize();
  before_host_read(vector.buffer());
  const Bytes before = read(vector.buffer(), stream);
  vector.push(vector.view().span<const std::uint32_t>(), stream);
  Bytes expected = before;
  expected.insert(expected.end(), before.begin(), before.end());
  EXPECT_BYTES(part(read(vector.buffer(), stream), 0, 80), expected);
}

TEST_P(DeviceVectors, RefuseWhatDoesNotFit) {
  DeviceVector<std::uint32_t> vector(resource, counted(4), stream);
  vector.reserve(10, stream);
  EXPECT_ERROR(vector.set_element(4, 1, stream), Errc::invalid_argument,
               "DeviceVector: 1 elements from number 4 on, of 4");
  EXPECT_ERROR(vector.wait_for_element(4, stream), Errc::invalid_argument, "of 4");
  Numbers three(3);
  EXPECT_ERROR(vector.copy_to(three, stream, 2), Errc::invalid_argument, "3 elements from number 2 on, of 4");
  EXPECT_ERROR(vector.copy_from(three, stream, SIZE_MAX), Errc::invalid_argument, "of 4");
  EXPECT_ERROR((DeviceVector<int>(nullptr, 1, stream)), Errc::invalid_argument, "the resource is null");
  DeviceVector<std::uint32_t> other = std::move(vector);
  EXPECT_EQ(vector.size(), 0U);
  EXPECT_EQ(vector.capacity(), 0U);
  EXPECT_ERROR(vector.push(three, stream), Errc::closed, "the vector is closed");
  other.close(stream);
  EXPECT_ERROR(other.resize(1, stream), Errc::closed, "the vector is closed");
  EXPECT_ERROR(other.wait_for_element(0, stream), Errc::closed, "the vector is closed");
  EXPECT_EQ(resource->stats().live_buffers, 0U);
}

TEST_P(DeviceVectors, HoldTypesOfTheCaller) {
  struct Particle {
    float place[3];
    std::uint8_t kind;
  };
  DeviceVector<Particle> vector(resource, 0, stream);
  vector.push(std::vector<Particle>(3, {{1, 2, 3}, 4}), stream);
  EXPECT_EQ(vector.wait_for_element(2, stream).kind, 4);
  EXPECT_EQ(vector.wait_for_element(2, stream).place[1], 2);
}

}  // namespace
}  // namespace weir::test
