// SPDX-License-Identifier: Apache-2.0
// Resources that stand on others. Every suite runs over them; here is what only they have: layers that agree, and for
// those that promise to change nothing, a comparison with the plain resource.

#include <cstdint>
#include <cstdio>

#include "fixture.hpp"

namespace weir::test {
namespace {

class Stacks : public OnMemory {
 public:
  static void SetUpTestSuite() {
    std::printf("stacks of WEIR_STACK_SEED=%llu:\n", static_cast<unsigned long long>(stack_seed()));
    for (const Memory& memory : stacked_memories()) {
      if (memory.stack->name == "random3") std::printf("  %s\n", memory.make()->name().c_str());
    }
  }

 protected:
  [[nodiscard]] std::vector<ResourcePtr> layers() const {
    std::vector<ResourcePtr> all;
    for (ResourcePtr layer = resource; layer; layer = layer->upstream()) all.push_back(layer);
    return all;
  }
};
WEIR_FOR_EACH(Stacks, stacked_memories(), MemoryName);

TEST_P(Stacks, BuffersBelongToTheUppermostLayer) {
  Buffer buffer = filled(pattern(1000, 1));
  EXPECT_EQ(buffer.memory_resource(), resource);
  EXPECT_EQ(buffer.slice(1, 2).memory_resource(), resource);
  EXPECT_EQ(buffer.copy_to(stream).memory_resource(), resource);
  EXPECT_EQ(resource->allocate(0, stream).memory_resource(), resource);
  EXPECT_EQ(resource->try_allocate(10, stream)->memory_resource(), resource);
}

TEST_P(Stacks, EveryLayerSeesTheBufferComeAndGo) {
  const auto all = layers();
  ASSERT_EQ(all.size(), GetParam().layers() + 1);
  for (const ResourcePtr& layer : all) EXPECT_EQ(layer->stats().live_buffers, 0U) << layer->name();
  Buffer buffer = filled(pattern(1000, 2));
  Buffer share = buffer.share();
  buffer.close();
  for (const ResourcePtr& layer : all) EXPECT_GE(layer->stats().live_buffers, 1U) << layer->name();
  share.close();
  EXPECT_EQ(resource->stats().live_buffers, 0U);
  stream.synchronize();
  resource->trim(0);
  for (const ResourcePtr& layer : all) EXPECT_EQ(layer->stats().reserved, 0U) << layer->name();
}

TEST_P(Stacks, LayersAreUsableOneByOne) {
  const auto all = layers();
  std::vector<Buffer> buffers;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    buffers.push_back(all[i]->allocate(777, stream));
    EXPECT_EQ(buffers.back().memory_resource(), all[i]);
    write(buffers.back(), pattern(777, i), stream);
  }
  for (std::uint32_t i = 0; i < all.size(); ++i) EXPECT_BYTES(read(buffers[i], stream), pattern(777, i));
}

/// Stacks that change nothing, beside the plain resource of the same memory.
class TransparentStacks : public Stacks {
 protected:
  void expect_same_counters() const {
    stream.synchronize();
    resource->trim(0);
    plain->trim(0);
    const ResourceStats a = resource->stats(), b = plain->stats();
    EXPECT_EQ(a.in_use, b.in_use);
    EXPECT_EQ(a.reserved, b.reserved);
    EXPECT_EQ(a.peak_in_use, b.peak_in_use);
    EXPECT_EQ(a.live_buffers, b.live_buffers);
    EXPECT_EQ(a.allocations, b.allocations);
  }

  ResourcePtr plain = GetParam().plain().make();
};
const Subset transparent{[](const Memory& memory) { return memory.stack && memory.stack->transparent; }};
WEIR_FOR_EACH_MEMORY_OF(transparent, TransparentStacks);

TEST_P(TransparentStacks, NameAndTraitsAreThePlainOnes) {
  EXPECT_EQ(resource->name(), plain->name());
  EXPECT_EQ(resource->device(), plain->device());
  EXPECT_EQ(resource->kind(), plain->kind());
  EXPECT_EQ(resource->is_host_accessible(), plain->is_host_accessible());
  EXPECT_EQ(resource->is_device_accessible(), plain->is_device_accessible());
  EXPECT_EQ(resource->is_exportable(), plain->is_exportable());
}

TEST_P(TransparentStacks, CountersAreThePlainOnes) {
  std::vector<Buffer> kept;
  for (const ResourcePtr& each : {resource, plain}) {
    kept.push_back(each->allocate(1000, stream));
    kept.push_back(each->allocate(3000, stream, 1U << 16U));
    kept.push_back(each->allocate(0, stream));
    kept.push_back(kept.front().share());
    (void)each->allocate(5000, stream);
    EXPECT_FALSE(each->try_allocate(std::size_t{1} << 50U, stream).has_value());
  }
  expect_same_counters();
  EXPECT_EQ(resource->stats().live_buffers, 2U);
  kept.clear();
  expect_same_counters();
  EXPECT_EQ(resource->stats().reserved, 0U);
  EXPECT_EQ(resource->trim(0), plain->trim(0));
}

TEST_P(TransparentStacks, BuffersAreThePlainOnes) {
  const Buffer a = resource->allocate(5000, stream, 1U << 16U);
  const Buffer b = plain->allocate(5000, stream, 1U << 16U);
  EXPECT_EQ(a.size(), b.size());
  EXPECT_EQ(a.device(), b.device());
  EXPECT_EQ(a.kind(), b.kind());
  EXPECT_EQ(a.is_host_accessible(), b.is_host_accessible());
  EXPECT_EQ(a.is_device_accessible(), b.is_device_accessible());
  EXPECT_EQ(a.host_data() == nullptr, b.host_data() == nullptr);
  EXPECT_EQ(a.device_address() == 0, b.device_address() == 0);
}

TEST_P(TransparentStacks, OutOfMemorySaysTheSame) {
  const auto exhaust = [this](const ResourcePtr& from, std::size_t bytes) {
    const Buffer live = from->allocate(1000, stream);
    try {
      (void)from->allocate(bytes, stream, 4096);
    } catch (const OutOfMemory& error) {
      return error.shortage();
    }
    ADD_FAILURE() << bytes << " bytes were had";
    return Shortage{};
  };
  for (const std::size_t bytes : {std::size_t{1} << 50U, SIZE_MAX}) {
    const Shortage a = exhaust(resource, bytes), b = exhaust(plain, bytes);
    EXPECT_EQ(a.requested, b.requested);
    EXPECT_EQ(a.alignment, b.alignment);
    EXPECT_EQ(a.in_use, b.in_use);
    EXPECT_EQ(a.reserved, b.reserved);
    EXPECT_EQ(a.limit, b.limit);
    EXPECT_EQ(a.largest_free, b.largest_free);
    EXPECT_EQ(a.device, b.device);
    EXPECT_EQ(a.resource, b.resource);
    EXPECT_EQ(a.call, b.call);
    EXPECT_EQ(a.native, b.native);
  }
}

}  // namespace
}  // namespace weir::test
