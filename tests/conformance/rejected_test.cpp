// SPDX-License-Identifier: Apache-2.0
// A refused call made nothing and changed nothing: no operation on the stream, no use on record, no byte, no counter,
// no descriptor.

#include <cstdint>

#include "fds.hpp"
#include "fixture.hpp"
#include "weir/dlpack.hpp"
#include "weir/ipc.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::test {
namespace {

class Rejected : public OnMemory {
 protected:
  /// Calls that the contract refuses, each in one or two ways.
  void refuse_everything(Buffer& a, Buffer& b) const {
    Bytes bytes(200);
    Buffer closed;
    EXPECT_ERROR(a.copy_to(b, stream), Errc::invalid_argument, "equal");
    EXPECT_ERROR(a.copy_from(b, stream), Errc::invalid_argument, "equal");
    EXPECT_ERROR(a.copy_from(b, 45, 0, 6, stream), Errc::invalid_argument, "source");
    EXPECT_ERROR(a.copy_from(b, 0, 95, 6, stream), Errc::invalid_argument, "destination");
    EXPECT_ERROR(a.copy_from(a, 0, 1, 2, stream), Errc::invalid_argument, "overlap");
    EXPECT_ERROR(a.copy_from(closed, 0, 0, 1, stream), Errc::closed, "copy_from");
    EXPECT_ERROR(a.copy_to(closed, 0, 0, 1, stream), Errc::closed, "copy_to");
    EXPECT_ERROR(a.copy_from(bytes, stream), Errc::invalid_argument, "200");
    EXPECT_ERROR(a.copy_to(bytes, stream, 1), Errc::invalid_argument, "200");
    EXPECT_ERROR(a.fill(std::uint32_t{1}, 98, 4, stream), Errc::invalid_argument, "98");
    EXPECT_ERROR(a.fill(std::uint32_t{1}, 0, 6, stream), Errc::invalid_argument, "multiple");
    EXPECT_ERROR(a.fill_pattern(1, 3, 0, 3, stream), Errc::invalid_argument, "1, 2, 4 or 8");
    EXPECT_ERROR(a.slice(90, 11), Errc::invalid_argument, "90");
    EXPECT_ERROR((a.view(f32, {26})), Errc::invalid_argument, "");
    EXPECT_ERROR(a.slice(100, 0).ipc_descriptor(stream), Errc::invalid_argument, "zero bytes");
    EXPECT_ERROR(stream.call({}), Errc::invalid_argument, "function");
    EXPECT_ERROR(resource->allocate(1, stream, 3), Errc::invalid_argument, "power of two");
    EXPECT_FALSE(resource->try_allocate(SIZE_MAX / 4, stream).has_value());
    EXPECT_ERROR(Buffer::from_handle(device(), 0, 10, {}, stream), Errc::invalid_argument, "10 bytes");
    if (!GetParam().exportable) {
      EXPECT_ERROR(a.ipc_descriptor(stream), Errc::unsupported, "export");
    }
  }
};
WEIR_FOR_EACH_MEMORY(Rejected);

TEST_P(Rejected, NothingIsPutOnTheStream) {
  Buffer a = filled(pattern(100, 1));
  Buffer b = filled(pattern(50, 2));
  stream.synchronize();
  const std::uint64_t before = stream.state().position();
  const std::size_t uses = a.block()->uses().size();
  refuse_everything(a, b);
  EXPECT_EQ(stream.state().position(), before);
  EXPECT_EQ(a.block()->uses().size(), uses);
  EXPECT_TRUE(stream.done());
  EXPECT_BYTES(read(a, stream), pattern(100, 1));
  EXPECT_BYTES(read(b, stream), pattern(50, 2));
}

TEST_P(Rejected, NothingIsMadeOrLost) {
  Buffer a = filled(pattern(100, 1));
  Buffer b = filled(pattern(50, 2));
  refuse_everything(a, b);  // whatever is made once
  stream.synchronize();
  resource->trim(0);  // and what earlier tests left on its way
  const ResourceStats before = resource->stats();
  const std::size_t fds = open_fds();
  refuse_everything(a, b);
  const ResourceStats after = resource->stats();
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.live_buffers, before.live_buffers);
  EXPECT_EQ(after.in_use, before.in_use);
  EXPECT_EQ(after.reserved, before.reserved);
  EXPECT_EQ(after.peak_in_use, before.peak_in_use);
  EXPECT_FDS(fds);
}

TEST_P(Rejected, WhatIsPendingGoesOn) {
  Buffer a = filled(pattern(100, 1));
  Buffer b = filled(pattern(50, 2));
  Gate gate;
  gate.hold(stream);
  a.fill(std::uint8_t{7}, 0, 10, stream);
  refuse_everything(a, b);
  b.copy_from(a, 0, 0, 50, stream);
  EXPECT_FALSE(stream.done());
  gate.open();
  Bytes model = pattern(100, 1);
  std::fill_n(model.begin(), 10, std::byte{7});
  EXPECT_BYTES(read(a, stream), model);
  EXPECT_BYTES(read(b, stream), part(model, 0, 50));
}

}  // namespace
}  // namespace weir::test
