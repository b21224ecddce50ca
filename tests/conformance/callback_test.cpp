// SPDX-License-Identifier: Apache-2.0
// Memory that two functions give: here, those of another resource, by their address.

#include "weir/callback_resource.hpp"

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "fixture.hpp"
#include "weir/interop/buffer_table.hpp"
#include "weir/pool.hpp"

namespace weir::test {
namespace {

/// What the functions do, and what was asked of them.
struct Lending {
  explicit Lending(ResourcePtr from) : resource(std::move(from)), stream(resource->device()) {}

  void* allocate(std::size_t bytes, const Stream& user) {
    ++allocations;
    if (refuse) refuse();
    Buffer buffer = resource->allocate(bytes + shift, stream);
    user.wait(stream.record());
    const auto address =
        buffer.device_address() ? buffer.device_address() : reinterpret_cast<std::uint64_t>(buffer.host_data());
    auto* const moved = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address + shift));
    buffers.insert(moved, std::move(buffer));
    return moved;
  }
  void deallocate(void* address, std::size_t bytes) {
    const Buffer buffer = buffers.take(address);
    if (buffer.size() != bytes + shift) ++wrong;
    ++deallocations;
  }

  ResourcePtr resource;
  Stream stream;
  BufferTable buffers;
  std::function<void()> refuse;
  std::size_t shift = 0;
  std::atomic<int> allocations{0}, deallocations{0}, wrong{0};
};

class Callback : public OnMemory {
 protected:
  [[nodiscard]] ResourcePtr make() const {
    return make_callback_resource(
        device(),
        {.name = "lent",
         .host_accessible = info().host_accessible,
         .device_accessible = info().device_accessible,
         .allocate = [lending = lending](auto bytes, const auto& user) { return lending->allocate(bytes, user); },
         .deallocate = [lending = lending](auto* address, auto bytes) { lending->deallocate(address, bytes); }});
  }
  [[nodiscard]] int lent() const { return lending->allocations - lending->deallocations; }

  std::shared_ptr<Lending> lending = std::make_shared<Lending>(resource);
};
bool is_plain(const Memory& memory) { return !memory.stack && !memory.exportable; }
const Subset plain_with_address{
    [](const Memory& memory) { return is_plain(memory) && memory.device.backend() != "vulkan"; },
    [](const Memory& memory) -> std::optional<Lack> {
      if (!is_plain(memory)) return {};
      return no_vulkan_addresses;
    }};
WEIR_FOR_EACH_MEMORY_OF(plain_with_address, Callback);

TEST_P(Callback, BuffersHoldBytes) {
  const ResourcePtr lent_memory = make();
  EXPECT_EQ(lent_memory->name(), std::string(device().backend()) + ".lent");
  EXPECT_EQ(lent_memory->kind(), MemoryKind::external);
  const Bytes bytes = pattern(5000, 1);
  Buffer buffer = lent_memory->allocate(bytes.size(), stream);
  write(buffer, bytes, stream);
  Buffer copy = buffer.copy_to(stream);
  EXPECT_EQ(copy.memory_resource(), lent_memory);
  EXPECT_EQ(read(copy, stream), bytes);
  EXPECT_EQ(lent_memory->stats().live_buffers, 2U);
  EXPECT_EQ(lent_memory->stats().in_use, 10000U);
  EXPECT_EQ(lent_memory->stats().reserved, 10000U);
  buffer.close();
  copy.close();
  lent_memory->trim(0);
  EXPECT_EQ(lent(), 0);
  EXPECT_EQ(lending->wrong, 0);
  EXPECT_EQ(lent_memory->stats().in_use, 0U);
  EXPECT_EQ(lent_memory->stats().reserved, 0U);
  EXPECT_EQ(lent_memory->stats().peak_in_use, 10000U);
}

TEST_P(Callback, StatisticsAreExact) {
  const ResourcePtr lent_memory = make();
  Buffer first = lent_memory->allocate(1000, stream), second = lent_memory->allocate(3000, stream);
  first.close();
  stream.synchronize();
  lent_memory->trim(0);
  EXPECT_EQ(lent_memory->stats().allocations, 2U);
  EXPECT_EQ(lent_memory->stats().reserved, 3000U);
  EXPECT_EQ(lent_memory->stats().peak_reserved, 4000U);
  lending->refuse = [] { throw std::bad_alloc(); };
  try {
    (void)lent_memory->allocate(500, stream);
    ADD_FAILURE() << "it was refused";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.shortage().requested, 500U);
    EXPECT_EQ(error.shortage().in_use, 3000U);
    EXPECT_EQ(error.shortage().reserved, 3000U);
  }
  EXPECT_EQ(lent_memory->stats().allocations, 2U);
}

TEST_P(Callback, MemoryGoesBackWhenNoUseIsLeft) {
  const ResourcePtr lent_memory = make();
  const Stream other(device());
  Buffer buffer = lent_memory->allocate(1000, stream);
  other.wait(stream.record());
  {
    Gate gate;
    gate.hold(other);
    buffer.fill(std::uint8_t{1}, other);
    buffer.close();
    EXPECT_EQ(lent(), 1);
    EXPECT_EQ(lent_memory->stats().live_buffers, 0U);
    EXPECT_EQ(lent_memory->stats().reserved, 1000U);
  }
  other.synchronize();
  lent_memory->trim(0);
  EXPECT_EQ(lent(), 0);
}

TEST_P(Callback, LargerAlignmentsAreFoundInLargerMemory) {
  const ResourcePtr lent_memory = make();
  for (std::size_t alignment = 1; alignment <= std::size_t{1} << 16U; alignment *= 2) {
    Buffer buffer = lent_memory->allocate(100, stream, alignment);
    EXPECT_EQ(buffer.device_address() % alignment, 0U);
    EXPECT_EQ(buffer.size(), 100U);
    buffer.fill(std::uint8_t{1}, stream);
  }
  stream.synchronize();
  lent_memory->trim(0);
  EXPECT_EQ(lent(), 0);
  EXPECT_EQ(lending->wrong, 0);
}

TEST_P(Callback, BuffersOutliveTheHandle) {
  ResourcePtr lent_memory = make();
  const std::weak_ptr<MemoryResource> seen = lent_memory;
  Buffer buffer = lent_memory->allocate(1000, stream);
  lent_memory.reset();
  EXPECT_EQ(buffer.memory_resource()->name(), std::string(device().backend()) + ".lent");
  buffer.close();
  EXPECT_TRUE(seen.expired());
  make()->trim(0);
  EXPECT_EQ(lent(), 0);
}

TEST_P(Callback, APoolStandsOnIt) {
  {
    const auto pool = make_pool(make(), {.segment_bytes = std::size_t{2} << 20U});
    for (int i = 0; i < 20; ++i) {
      Buffer buffer = pool->allocate(10000, stream);
      buffer.fill(static_cast<std::uint8_t>(i), stream);
    }
    stream.synchronize();
    EXPECT_EQ(lent(), 1);
  }
  make()->trim(0);
  EXPECT_EQ(lent(), 0);
}

TEST_P(Callback, NullAndBadAllocAreExhaustion) {
  const ResourcePtr lent_memory = make();
  lending->refuse = [] { throw std::bad_alloc(); };
  EXPECT_OUT_OF_MEMORY((void)lent_memory->allocate(1000, stream), "lent");
  EXPECT_FALSE(lent_memory->try_allocate(1000, stream));
  lending->refuse = [] { throw std::domain_error("mine"); };
  EXPECT_THROW((void)lent_memory->try_allocate(1000, stream), std::domain_error);
  const auto none = make_callback_resource(
      device(), {.allocate = [](auto, const auto&) { return nullptr; }, .deallocate = [](auto*, auto) {}});
  EXPECT_OUT_OF_MEMORY((void)none->allocate(1000, stream), "callback");
  EXPECT_EQ(lent_memory->stats().reserved, 0U);
  EXPECT_EQ(lent_memory->stats().live_buffers, 0U);
}

TEST_P(Callback, WhatIsNotAlignedGoesBack) {
  lending->shift = 64;
  EXPECT_ERROR((void)make()->allocate(1000, stream), Errc::incompatible, "aligned");
  EXPECT_EQ(lent(), 0);
  EXPECT_EQ(lending->wrong, 0);
}

class CallbackElsewhere : public OnDevice {};
WEIR_FOR_EACH_DEVICE(CallbackElsewhere);

TEST_P(CallbackElsewhere, WhatCannotWorkIsRefused) {
  EXPECT_ERROR((void)make_callback_resource(device(), {}), Errc::invalid_argument, "functions");
  CallbackOptions options{.allocate = [](auto, const auto&) { return nullptr; }, .deallocate = [](auto*, auto) {}};
  if (device().backend() != "vulkan") return (void)make_callback_resource(device(), options);
  EXPECT_ERROR((void)make_callback_resource(device(), options), Errc::unsupported, device().id());
}

}  // namespace
}  // namespace weir::test
