// SPDX-License-Identifier: Apache-2.0
#include "weir/buffer.hpp"

#include "weir/error.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir {

Buffer::Buffer(spi::Block& block) noexcept : Buffer(block, 0, block.size) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  spi::Block* const mine = block();
  block_.store(other.block(), std::memory_order_relaxed);
  other.block_.store(nullptr, std::memory_order_relaxed);
  offset_ = other.offset_;
  size_ = other.size_;
  if (mine) drop(*mine);  // last, because that may call a function that uses this buffer
  return *this;
}

// For operations. Observers only need the buffer to be open.
spi::Block& Buffer::open_here(const char* operation) const {
  spi::Block& block = open(operation);
  if (block.segment) block.segment->device->check_process();
  return block;
}

spi::Block& Buffer::open(const char* operation) const {
  spi::Block* open = block();
  if (!open) throw Error(Errc::closed, std::string("Buffer::") + operation + ": the buffer is closed");
  return *open;
}

Buffer Buffer::share() const {
  spi::Block& shared = open_here("share");
  shared.owners.fetch_add(1, std::memory_order_relaxed);
  return {shared, offset_, size_};
}

Buffer Buffer::slice(std::size_t offset, std::size_t bytes) const {
  spi::Block& shared = open_here("slice");
  if (offset > size_ || bytes > size_ - offset) {
    throw Error(Errc::invalid_argument, "Buffer::slice: " + std::to_string(bytes) + " bytes at offset " +
                                            std::to_string(offset) + " do not lie in a buffer of " +
                                            std::to_string(size_) + " bytes");
  }
  shared.owners.fetch_add(1, std::memory_order_relaxed);
  return {shared, offset_ + offset, bytes};
}

void Buffer::close() noexcept {
  if (spi::Block* mine = block_.exchange(nullptr, std::memory_order_acq_rel)) drop(*mine);
}

void Buffer::close(const Stream& stream) {
  auto& state = stream.state();
  spi::Block* mine = block_.exchange(nullptr, std::memory_order_acq_rel);  // only one of several threads gets it
  if (!mine) return;
  if (mine->stream != &state) [[unlikely]] {  // on its allocation stream it ends in order anyway
    const bool ends = mine->owners.load(std::memory_order_acquire) == 1 && mine->resource->traits_.keeps_uses;
    try {
      const auto last = state.position();
      ends ? mine->used_last(state, last) : mine->used(state, last);
    } catch (...) {
      block_.store(mine, std::memory_order_release);
      throw;
    }
  }
  drop(*mine);
}

// A single owner cannot gain another one meanwhile, so this case needs no read-modify-write. One of several owners may
// be the last that is allowed to ask an application's stream how far it is, because the others may belong to another
// process.
void Buffer::drop(spi::Block& block) noexcept {
  if (block.owners.load(std::memory_order_acquire) != 1) {
    if (block.stream) block.stream->mark_outside();
    if (!block.never_left_home()) block.mark_uses();
    if (block.owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  }
  MemoryResource::deallocate(block);
}

void Buffer::use_on(const Stream& stream) const {
  spi::Block& used = open_here("use_on");
  auto& state = stream.state();
  used.used(state, state.position());
}

void Buffer::order_after_uses(const Stream& stream) const {
  auto& state = stream.state();
  for (const spi::Point& use : open_here("order_after_uses").uses_before(&state))
    state.put(spi::WaitOp{use.stream, use.value});
}

std::byte* Buffer::host_data() const noexcept {
  const spi::Block* open = block();
  if (!open || size_ == 0 || !open->segment->host || open->segment->device->inherited) return nullptr;
  return open->segment->host + open->offset + offset_;
}

std::uint64_t Buffer::device_address() const noexcept {
  const spi::Block* open = block();
  if (!open || size_ == 0 || open->segment->address == 0 || open->segment->device->inherited) return 0;
  return open->segment->address + open->offset + offset_;
}

Device Buffer::device() const {
  const spi::Block& block = open("device");
  return block.segment ? Device(*block.segment->device) : block.resource->device();
}

ResourcePtr Buffer::memory_resource() const { return open("memory_resource").resource->do_handle(); }

bool Buffer::is_host_accessible() const noexcept {
  const spi::Block* open = block();
  return open && (open->segment ? open->segment->host_accessible() : open->resource->is_host_accessible());
}

bool Buffer::is_device_accessible() const noexcept {
  const spi::Block* open = block();
  return open && (open->segment ? open->segment->device_accessible : open->resource->is_device_accessible());
}

bool Buffer::is_read_only() const noexcept {
  const spi::Block* open = block();
  return open && open->segment && open->segment->read_only;
}

MemoryKind Buffer::kind() const {
  const spi::Block& block = open("kind");
  return block.segment ? block.segment->kind : block.resource->kind();
}

spi::Location Buffer::location() const {
  const spi::Block& block = open_here("location");
  return {block.segment, block.offset + offset_};
}

}  // namespace weir
