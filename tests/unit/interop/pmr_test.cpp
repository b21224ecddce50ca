// SPDX-License-Identifier: Apache-2.0
// Memory whose address for the host is less aligned than that for the device, as Vulkan may map it.

#include "weir/interop/pmr.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "weir/host.hpp"
#include "weir/spi/block.hpp"

namespace weir::test {
namespace {

/// What is asked for more alignment than 256 begins 256 bytes behind it.
class Shifted final : public MemoryResource {
 public:
  Shifted() : MemoryResource(host_device(), "shifted", {MemoryKind::pageable, true, true, false}) {}
  [[nodiscard]] ResourceStats stats() const override { return upstream_->stats(); }
  std::size_t trim(std::size_t bytes_to_keep) override { return upstream_->trim(bytes_to_keep); }

 private:
  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    const std::size_t shift = request.alignment > default_alignment ? default_alignment : 0;
    spi::Block* block =
        allocate_from(*upstream_, {request.bytes + shift, request.alignment, request.stream}, shortage);
    if (block) block->offset += shift;
    if (block) block->size = request.bytes;
    return block;  // ends in upstream_, which counts more bytes than come back
  }
  void do_deallocate(spi::Block& block) noexcept override { deallocate_to(*upstream_, block); }

  ResourcePtr upstream_ = host::make_pageable_resource();
};

TEST(PmrAlignment, IsThatOfTheAddressForTheHost) {
  const auto shifted = std::make_shared<Shifted>();
  PmrResource memory(shifted);
  for (std::size_t alignment = 1; alignment <= std::size_t{2} << 20U; alignment *= 2) {
    void* const address = memory.allocate(100, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % alignment, 0U) << alignment;
    static_cast<char*>(address)[99] = 1;
    memory.deallocate(address, 100, alignment);
  }
  EXPECT_EQ(shifted->stats().live_buffers, 0U);
}

}  // namespace
}  // namespace weir::test
