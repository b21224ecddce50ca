// SPDX-License-Identifier: Apache-2.0
// Ranges of one memory that overlap are refused, whichever buffers name them; those that do not are copied.

#include <algorithm>
#include <cstdint>

#include "dlpack_producer.hpp"
#include "fixture.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

class Overlap : public OnMemory {
 protected:
  static constexpr std::size_t size = 120;

  /// Every pair of ranges, from `source` to `target`, which name the same bytes of `all`.
  void sweep(Buffer& all, const Buffer& source, Buffer& target, std::size_t shift = 0) const {
    Bytes model = read(all, stream);
    for (const std::size_t from : {0U, 1U, 10U, 50U}) {
      for (const std::size_t to : {0U, 1U, 9U, 10U, 11U, 50U, 60U}) {
        for (const std::size_t bytes : {1U, 9U, 10U, 50U}) {
          const std::size_t there = to + shift;  // of `target`, whose byte 0 is byte `shift` of `source`
          const std::size_t apart = there > from ? there - from : from - there;
          if (apart < bytes) {
            ASSERT_ERROR(target.copy_from(source, from, to, bytes, stream), Errc::invalid_argument, "overlap")
                << bytes << " bytes from " << from << " to " << there;
            ASSERT_ERROR(source.copy_to(target, to, from, bytes, stream), Errc::invalid_argument, "overlap")
                << bytes << " bytes from " << from << " to " << there;
            continue;
          }
          target.copy_from(source, from, to, bytes, stream);
          const auto begin = model.begin();
          std::copy_n(begin + static_cast<std::ptrdiff_t>(from), bytes, begin + static_cast<std::ptrdiff_t>(there));
        }
      }
    }
    EXPECT_BYTES(read(all, stream), model);
  }
};
WEIR_FOR_EACH_MEMORY(Overlap);

TEST_P(Overlap, InOneBuffer) {
  Buffer buffer = filled(pattern(size, 1));
  sweep(buffer, buffer, buffer);
}

TEST_P(Overlap, BetweenShares) {
  Buffer buffer = filled(pattern(size, 2));
  Buffer share = buffer.share();
  sweep(buffer, share, buffer);
  sweep(buffer, buffer, share);
}

TEST_P(Overlap, BetweenSlicesOfSlices) {
  Buffer buffer = filled(pattern(size + 10, 3));
  Buffer outer = buffer.slice(4, size + 4);
  Buffer inner = outer.slice(3, size - 3);
  Buffer low = buffer.slice(0, size);
  sweep(buffer, low, inner, 7);
  EXPECT_ERROR(low.slice(0, 8).copy_to(inner, 0, 0, 8, stream), Errc::invalid_argument, "overlap by 1 bytes");
  EXPECT_ERROR(inner.copy_to(low, 0, 0, 8, stream), Errc::invalid_argument, "overlap by 1 bytes");
}

TEST_P(Overlap, OtherBuffersOfTheResourceAreNone) {
  std::vector<Buffer> live;
  for (std::uint32_t i = 0; i < 8; ++i) live.push_back(filled(pattern(size, i)));
  for (std::size_t i = 1; i < live.size(); ++i) live[i].copy_from(live[i - 1], stream);
  for (const Buffer& buffer : live) EXPECT_BYTES(read(buffer, stream), pattern(size, 0));
}

class OverlapByAddress : public Overlap {};
WEIR_FOR_EACH_ADDRESSABLE(OverlapByAddress);

TEST_P(OverlapByAddress, WithATensorTakenBackIn) {
  Buffer buffer = filled(pattern(size, 4));
  Tensor whole = from_dlpack(buffer.view(u8, {size}).to_dlpack(stream).release(), stream);
  Tensor tail = from_dlpack(buffer.view(u8, {size - 7}, 7).to_dlpack(stream).release(), stream);
  sweep(buffer, buffer, whole.buffer());
  sweep(buffer, whole.buffer(), buffer);
  sweep(buffer, buffer, tail.buffer(), 7);
  sweep(buffer, whole.buffer(), tail.buffer(), 7);
  EXPECT_ERROR(buffer.copy_to(whole.buffer(), stream), Errc::invalid_argument, "overlap");
}

TEST_P(OverlapByAddress, WithAnAdoptedAddress) {
  Buffer buffer = filled(pattern(size, 5));
  const bool by_host = device().backend() == "vulkan";
  const auto host = reinterpret_cast<std::uintptr_t>(buffer.host_data());
  Buffer alias = Buffer::from_handle(by_host ? host_device() : device(), by_host ? host : buffer.device_address(), size,
                                     {}, stream);
  sweep(buffer, buffer, alias);
  sweep(buffer, alias, buffer);
  sweep(buffer, alias, alias);
  alias.close();
  buffer.close();
  stream.synchronize();
}

class OverlapByDescriptor : public Overlap {};
WEIR_FOR_EACH_EXPORTABLE(OverlapByDescriptor);

TEST_P(OverlapByDescriptor, WithMemoryOpenedByItsOwnProcess) {
  Buffer buffer = filled(pattern(size, 6));
  Buffer opened = ipc::open(buffer.ipc_descriptor(stream), stream);
  Buffer again = ipc::open(buffer.slice(7, size - 7).ipc_descriptor(stream), stream);
  sweep(buffer, buffer, opened);
  sweep(buffer, opened, buffer);
  sweep(buffer, buffer, again, 7);
  sweep(buffer, opened, again, 7);
}

class OverlapOnTheHost : public OnMemory {};
WEIR_FOR_EACH_HOST_ACCESSIBLE(OverlapOnTheHost);

TEST_P(OverlapOnTheHost, BytesOfTheBufferItselfMove) {
  for (const bool up : {true, false}) {
    Bytes model = pattern(1000, 7);
    Buffer buffer = filled(model);
    const std::size_t from = up ? 0 : 50, to = up ? 50 : 0;
    buffer.copy_from(std::span(buffer.host_data() + from, 900), stream, to);
    const Bytes moved = part(model, from, 900);
    std::copy(moved.begin(), moved.end(), model.begin() + static_cast<std::ptrdiff_t>(to));
    EXPECT_BYTES(read(buffer, stream), model);
    stream.synchronize();
    buffer.copy_to(std::span(buffer.host_data() + to, 900), stream, from);
    stream.synchronize();
    after_host_write(buffer);
    const Bytes again = part(model, from, 900);
    std::copy(again.begin(), again.end(), model.begin() + static_cast<std::ptrdiff_t>(to));
    EXPECT_BYTES(std::span(buffer.host_data() + to, 900), part(model, to, 900));
  }
}

}  // namespace
}  // namespace weir::test
