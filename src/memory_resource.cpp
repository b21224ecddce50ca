// SPDX-License-Identifier: Apache-2.0
#include "weir/memory_resource.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "weir/buffer.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"

namespace weir {
namespace {

constexpr std::size_t largest_request = std::numeric_limits<std::size_t>::max() / 2;
constexpr std::size_t largest_alignment = std::size_t{1} << 30;

void check(std::size_t alignment, const std::string& resource) {
  if (std::has_single_bit(alignment) && alignment <= largest_alignment) [[likely]] return;
  throw Error(Errc::invalid_argument, resource + ": alignment " + std::to_string(alignment) +
                                          " is not a power of two of at most " + std::to_string(largest_alignment) +
                                          " bytes");
}

// Of a buffer of zero bytes, which no resource sees.
struct EmptyBlock : spi::Block {
  ResourcePtr home;
  spi::Ref<spi::StreamState> timeline;
};

}  // namespace

MemoryResource::MemoryResource(Device device, std::string name, Traits traits)
    : device_(device), name_(std::move(name)), traits_(traits) {}

MemoryResource::~MemoryResource() = default;

Buffer MemoryResource::allocate(std::size_t bytes, const Stream& stream, std::size_t alignment) {
  check(alignment, name_);
  alignment = std::max(alignment, default_alignment);
  const spi::StreamState& state = stream.state();
  if (bytes == 0) [[unlikely]] return allocate_empty(stream);
  device_.state().check_process();
  state.device().check_process();
  const bool possible = bytes <= largest_request - alignment;
  if (possible) [[likely]] {
    if (spi::Block* block = do_allocate_cached({bytes, alignment, &stream})) return Buffer(*block);
  }
  Shortage shortage;
  const auto refuse = [&]() -> void {
    shortage.requested = bytes;
    shortage.alignment = alignment;
    if (shortage.device.empty()) shortage.device = device_.state().describe();
    if (shortage.resource.empty()) shortage.resource = name_;
    throw OutOfMemory(std::move(shortage));
  };
  if (!possible) refuse();
  spi::Block* block = do_allocate({bytes, alignment, &stream}, shortage);
  if (!block) refuse();
  return Buffer(*block);
}

std::optional<Buffer> MemoryResource::try_allocate(std::size_t bytes, const Stream& stream, std::size_t alignment) {
  check(alignment, name_);
  alignment = std::max(alignment, default_alignment);
  const spi::StreamState& state = stream.state();
  if (bytes == 0) [[unlikely]] return allocate_empty(stream);
  device_.state().check_process();
  state.device().check_process();
  if (bytes > largest_request - alignment) return std::nullopt;
  if (spi::Block* block = do_allocate_cached({bytes, alignment, &stream})) return Buffer(*block);
  Shortage shortage;
  spi::Block* block = do_allocate({bytes, alignment, &stream}, shortage);
  if (!block) return std::nullopt;
  return Buffer(*block);
}

Buffer MemoryResource::allocate_empty(const Stream& stream) {
  auto block = std::make_unique<EmptyBlock>();
  block->home = do_handle();
  block->timeline = spi::Ref<spi::StreamState>::retain(&stream.state());
  block->resource = this;
  block->stream = block->timeline.get();
  return Buffer(*block.release());
}

spi::Block* MemoryResource::allocate_from(MemoryResource& upstream, const spi::Request& request, Shortage& shortage) {
  if (spi::Block* const block = upstream.do_allocate_cached(request)) return block;
  return upstream.do_allocate(request, shortage);
}

void MemoryResource::deallocate_to(MemoryResource& upstream, spi::Block& block) noexcept {
  block.resource = &upstream;
  upstream.do_deallocate(block);
}

spi::Block* MemoryResource::reserve_addresses_from(MemoryResource& upstream, std::size_t bytes,
                                                   const Stream& stream) {
  return upstream.do_reserve_addresses(bytes, stream);
}

void MemoryResource::deallocate(spi::Block& block) noexcept {
  if (!block.segment) [[unlikely]] {
    delete static_cast<EmptyBlock*>(&block);
    return;
  }
  block.resource->do_deallocate(block);
}

ResourcePtr make_resource(const Device& device, MemoryKind kind, const ResourceOptions& options) {
  const KindInfo* info = device.find(kind);
  if (!info) {
    std::string kinds;
    for (const KindInfo& known : device.kinds()) {
      kinds += (kinds.empty() ? "" : ", ") + std::string(to_string(known.kind));
    }
    throw Error(Errc::unsupported,
                device.state().describe() + " has no memory of kind " + std::string(to_string(kind)) + "; it has " + kinds);
  }
  return spi::make_segment_resource(device.state(), kind, options.exportable);
}

ResourcePtr make_resource(const Device& device, const ResourceOptions& options) {
  return make_resource(device, device.default_kind(), options);
}

}  // namespace weir
