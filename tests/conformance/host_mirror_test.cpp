// SPDX-License-Identifier: Apache-2.0
// Mirrors of all memories on the host: what is brought in step and what is not, and when both sides are one memory.

#include "weir/host_mirror.hpp"

#include <cstdint>

#include "fixture.hpp"
#include "weir/dlpack.hpp"
#include "weir/host.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

constexpr std::size_t size = 4096;

class HostMirrors : public OnMemory {
 protected:
  [[nodiscard]] HostMirror made(std::span<const std::byte> bytes) const { return {filled(bytes), stream}; }
  /// A mirror whose two sides are certainly two memories.
  [[nodiscard]] HostMirror apart(std::span<const std::byte> bytes) const {
    return {filled(bytes), host::make_pageable_resource()->allocate(bytes.size(), stream)};
  }
  static void write_host(HostMirror& mirror, std::span<const std::byte> bytes, std::size_t offset = 0) {
    std::ranges::copy(bytes, mirror.span<std::byte>().begin() + static_cast<std::ptrdiff_t>(offset));
  }
  [[nodiscard]] Bytes host_of(const HostMirror& mirror) const {
    stream.synchronize();
    const auto bytes = mirror.span<std::byte>();
    return {bytes.begin(), bytes.end()};
  }
};
WEIR_FOR_EACH_MEMORY(HostMirrors);

TEST_P(HostMirrors, GoBothWays) {
  HostMirror mirror = made(pattern(size, 1));
  EXPECT_EQ(mirror.size(), size);
  mirror.sync_to_host(stream);
  EXPECT_BYTES(host_of(mirror), pattern(size, 1));
  write_host(mirror, pattern(size, 2));
  mirror.sync_to_device(stream);
  EXPECT_BYTES(read(mirror.device(), stream), pattern(size, 2));
  mirror.device().fill(std::uint32_t{7}, stream);
  mirror.sync_to_host(stream);
  stream.synchronize();
  EXPECT_EQ(mirror.span<std::uint32_t>().size(), size / 4);
  EXPECT_EQ(mirror.span<std::uint32_t>()[size / 4 - 1], 7U);
}

TEST_P(HostMirrors, BringRangesInStep) {
  HostMirror mirror = apart(pattern(size, 1));
  EXPECT_FALSE(mirror.is_one_memory());
  write_host(mirror, pattern(size, 2));
  mirror.sync_to_device(100, 1000, stream);
  Bytes expected = pattern(size, 1);
  std::ranges::copy(part(pattern(size, 2), 100, 1000), expected.begin() + 100);
  EXPECT_BYTES(read(mirror.device(), stream), expected);
  write_host(mirror, repeat(size, 9));
  mirror.sync_to_host(1000, 200, stream);
  Bytes host = repeat(size, 9);
  std::ranges::copy(part(expected, 1000, 200), host.begin() + 1000);
  EXPECT_BYTES(host_of(mirror), host);
  mirror.sync_to_host(size, 0, stream);
  EXPECT_ERROR(mirror.sync_to_host(1, size, stream), Errc::invalid_argument, "HostMirror::sync_to_host");
  EXPECT_ERROR(mirror.sync_to_device(size + 1, 0, stream), Errc::invalid_argument, "HostMirror::sync_to_device");
}

TEST_P(HostMirrors, SayWhetherBothSidesAreOneMemory) {
  HostMirror mirror = made(pattern(size, 1));
  const bool cached =
      info().host_accessible && info().kind != MemoryKind::upload && info().kind != MemoryKind::mappable;
  if (!cached) {
    EXPECT_FALSE(mirror.is_one_memory());
    EXPECT_EQ(mirror.host().kind(), device().staging_kind());
    EXPECT_TRUE(mirror.host().is_host_accessible());
  }
  if (!mirror.is_one_memory()) return;
  EXPECT_TRUE(cached);
  EXPECT_EQ(mirror.host().host_data(), mirror.device().host_data());
  EXPECT_EQ(resource->stats().live_buffers, 1U);
  stream.synchronize();
  mirror.span<std::byte>()[5] = std::byte{42};
  EXPECT_BYTES(part(read(mirror.device(), stream), 5, 1), repeat(1, 42));
  EXPECT_ERROR(mirror.sync_to_host(1, size, stream), Errc::invalid_argument, "do not lie in the buffer");
}

// Of memory that is not coherent, the syncs tell the driver what the host reads and writes.
TEST_P(HostMirrors, TheHostsSideMayBeInAnyMemoryThatItReaches) {
  if (!info().host_accessible) return;
  HostMirror mirror(filled(pattern(size, 1)), resource->allocate(size, stream));
  EXPECT_FALSE(mirror.is_one_memory());
  mirror.sync_to_host(stream);
  EXPECT_BYTES(host_of(mirror), pattern(size, 1));
  write_host(mirror, pattern(size - 7, 2), 7);
  mirror.sync_to_device(7, size - 7, stream);
  EXPECT_BYTES(part(read(mirror.device(), stream), 7, size - 7), pattern(size - 7, 2));
}

TEST_P(HostMirrors, ComeInTheirTurn) {
  HostMirror mirror = apart(pattern(size, 1));
  mirror.device().fill(std::byte{1}, stream);
  mirror.sync_to_host(0, size / 2, stream);
  mirror.device().fill(std::byte{2}, stream);
  mirror.sync_to_host(size / 2, size / 2, stream);
  Bytes expected = repeat(size / 2, 1);
  expected.resize(size, std::byte{2});
  EXPECT_BYTES(host_of(mirror), expected);
}

TEST_P(HostMirrors, OfNothingDoNothing) {
  HostMirror mirror = made({});
  EXPECT_TRUE(mirror.is_one_memory());
  mirror.sync_to_device(stream);
  mirror.sync_to_host(stream);
  EXPECT_TRUE(mirror.span<double>().empty());
}

TEST_P(HostMirrors, RefuseWhatDoesNotFit) {
  Buffer buffer = filled(pattern(10, 1));
  const auto pageable = host::make_pageable_resource();
  Buffer small = pageable->allocate(9, stream);
  EXPECT_ERROR(HostMirror(std::move(buffer), std::move(small)), Errc::invalid_argument,
               "HostMirror: the device's side has 10 bytes, the host's 9");
  EXPECT_FALSE(buffer.is_closed()) << "a refused mirror takes nothing";
  EXPECT_FALSE(small.is_closed());
  if (!info().host_accessible) {
    Buffer unreached = filled(pattern(10, 2));
    EXPECT_ERROR(HostMirror(std::move(buffer), std::move(unreached)), Errc::invalid_argument, "the host cannot reach");
  }
  if (info().host_accessible) {
    const auto refused = [&](Buffer&& device_side, Buffer&& host_side, const char* why) {
      EXPECT_ERROR(HostMirror(std::move(device_side), std::move(host_side)), Errc::invalid_argument, why);
      EXPECT_FALSE(device_side.is_closed());
      EXPECT_FALSE(host_side.is_closed());
    };
    refused(buffer.share(), buffer.share(), "HostMirror: 10 bytes of the device's side are also the host's");
    refused(buffer.slice(0, 6), buffer.slice(4, 6), "2 bytes of the device's side");
    refused(buffer.slice(4, 6), buffer.slice(0, 6), "2 bytes of the device's side");
    refused(std::move(buffer), std::move(buffer), "HostMirror: both sides are one buffer");
    const HostMirror halves(buffer.slice(0, 5), buffer.slice(5, 5));
    EXPECT_FALSE(halves.is_one_memory());
  }
  HostMirror mirror(buffer.slice(1, 9), stream);
  EXPECT_ERROR(mirror.span<std::uint16_t>(), Errc::invalid_argument, "9 bytes are not a whole number of elements of 2");
  const Buffer other = filled(pattern(10, 2));
  const HostMirror odd(buffer.slice(1, 8), info().host_accessible ? other.slice(1, 8) : pageable->allocate(8, stream));
  if (buffer.is_host_accessible()) {
    EXPECT_ERROR(odd.span<std::uint64_t>(), Errc::invalid_argument, "not aligned to 8 bytes");
  }
  buffer.close();
  EXPECT_ERROR(HostMirror(std::move(buffer), stream), Errc::closed, "HostMirror: the buffer is closed");
  mirror.close();
  EXPECT_ERROR(mirror.sync_to_host(0, 0, stream), Errc::closed, "HostMirror::sync_to_host");
  EXPECT_ERROR(mirror.span<std::byte>(), Errc::closed, "HostMirror::span");
}

class ReadOnlyMirrors : public OnMemory {};
WEIR_FOR_EACH_ADDRESSABLE(ReadOnlyMirrors);

TEST_P(ReadOnlyMirrors, AreRefused) {
  Buffer owner = filled(pattern(64, 1));
  ManagedTensor exported = owner.view(u8, {64}).to_dlpack(stream, {.read_only = true});
  Tensor tensor = from_dlpack(exported.release(), stream);
  EXPECT_ERROR(HostMirror(std::move(tensor.buffer()), stream), Errc::invalid_argument, "read-only");
}

}  // namespace
}  // namespace weir::test
