// SPDX-License-Identifier: Apache-2.0
#include "weir/memory_resource.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/alignment.hpp"
#include "weir/buffer.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/resources.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {
namespace {

constexpr std::size_t largest_request = std::numeric_limits<std::size_t>::max() / 2 - detail::largest_alignment;

// The block of a zero-byte buffer. No resource sees it.
struct EmptyBlock : spi::Block {
  ResourcePtr home;
  spi::Ref<spi::StreamState> timeline;
};

[[gnu::noinline]] void end(const EmptyBlock& block) noexcept { delete &block; }

// What no resource has to check. Nothing is asked of a device for zero bytes.
spi::Request checked(const MemoryResource& resource, std::size_t bytes, const Stream& stream, std::size_t alignment) {
  if (!detail::can_align(alignment)) [[unlikely]] detail::refuse_alignment(resource.name(), alignment);
  const spi::StreamState& state = stream.state();
  if (bytes != 0) [[likely]] {
    resource.device().state().check_process();
    state.device().check_process();
  }
  return {bytes, std::max(alignment, default_alignment), &stream};
}

}  // namespace

MemoryResource::MemoryResource(Device device, std::string name, Traits traits)
    : device_(device), name_(std::move(name)), traits_(traits) {}

MemoryResource::~MemoryResource() = default;

Buffer MemoryResource::allocate(std::size_t bytes, const Stream& stream, std::size_t alignment) {
  const spi::Request request = checked(*this, bytes, stream, alignment);
  if (bytes == 0) [[unlikely]] return allocate_empty(stream);
  if (bytes <= largest_request) [[likely]] {
    if (spi::Block* block = do_allocate_cached(request)) [[likely]] return {*block, 0, block->size};
  }
  return allocate_uncached(request);
}

Buffer MemoryResource::allocate_uncached(const spi::Request& request) {
  Shortage shortage;
  spi::Block* const block = request.bytes <= largest_request ? do_allocate(request, shortage) : nullptr;
  if (block) return Buffer(*block);
  shortage.requested = request.bytes;
  shortage.alignment = request.alignment;
  if (shortage.device.empty()) shortage.device = device_.state().describe();
  if (shortage.resource.empty()) shortage.resource = name_;
  throw OutOfMemory(std::move(shortage));
}

std::optional<Buffer> MemoryResource::try_allocate(std::size_t bytes, const Stream& stream, std::size_t alignment) {
  const spi::Request request = checked(*this, bytes, stream, alignment);
  if (bytes == 0) [[unlikely]] return allocate_empty(stream);
  if (bytes > largest_request) [[unlikely]] return std::nullopt;
  if (spi::Block* block = do_allocate_cached(request)) [[likely]] return Buffer(*block);
  Shortage shortage;
  spi::Block* block = do_allocate(request, shortage);
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
  if (!block.segment) [[unlikely]] return end(static_cast<EmptyBlock&>(block));
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
