// SPDX-License-Identifier: Apache-2.0
#include "weir/device_vector.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "weir/error.hpp"

namespace weir::detail {

VectorMemory::VectorMemory(ResourcePtr resource, std::size_t bytes, std::size_t element, const Stream& stream)
    : size_(bytes), element_(element) {
  if (!resource) throw Error(Errc::invalid_argument, "DeviceVector: the resource is null");
  buffer_ = resource->allocate(bytes, stream);
}

std::size_t VectorMemory::bytes_of(std::size_t count, std::size_t element) noexcept {
  std::size_t bytes;
  return __builtin_mul_overflow(count, element, &bytes) ? std::numeric_limits<std::size_t>::max() : bytes;
}

void VectorMemory::reserve(std::size_t bytes, const Stream& stream) {
  check_open();
  if (bytes > buffer_.size()) take(moved_to(buffer_.memory_resource()->allocate(bytes, stream), size_, stream), stream);
}

void VectorMemory::resize(std::size_t bytes, const Stream& stream) {
  reserve(bytes, stream);
  size_ = bytes;
}

void VectorMemory::shrink_to_fit(const Stream& stream) {
  check_open();
  if (size_ < buffer_.size()) take(moved_to(buffer_.memory_resource()->allocate(size_, stream), size_, stream), stream);
}

// The bytes may be elements of this vector, so they are read before its memory is given back.
void VectorMemory::push(std::span<const std::byte> bytes, const Stream& stream) {
  check_open();
  std::size_t needed;
  if (__builtin_add_overflow(size_, bytes.size(), &needed)) needed = std::numeric_limits<std::size_t>::max();
  if (needed <= buffer_.size()) {
    buffer_.copy_from(bytes, stream, size_);
  } else {
    const ResourcePtr resource = buffer_.memory_resource();
    auto memory = resource->try_allocate(std::max(needed, bytes_of(buffer_.size(), 2)), stream);
    if (!memory) memory = resource->allocate(needed, stream);
    Buffer moved = moved_to(std::move(*memory), size_, stream);
    moved.copy_from(bytes, stream, size_);
    take(std::move(moved), stream);
  }
  size_ = needed;
}

void VectorMemory::write(std::span<const std::byte> bytes, std::size_t offset, const Stream& stream) {
  check_open();
  check_range(offset, bytes.size());
  buffer_.copy_from(bytes, stream, offset);
}

void VectorMemory::read(std::span<std::byte> bytes, std::size_t offset, const Stream& stream) const {
  check_open();
  check_range(offset, bytes.size());
  buffer_.copy_to(bytes, stream, offset);
}

// Through memory of the library, which stays as long as the copy is pending, even if the wait throws.
void VectorMemory::read_and_wait(std::span<std::byte> bytes, std::size_t offset, const Stream& stream) const {
  check_open();
  check_range(offset, bytes.size());
  Buffer landing = make_resource(host_device())->allocate(bytes.size(), stream);
  landing.copy_from(buffer_, offset, 0, bytes.size(), stream);
  stream.synchronize();
  std::memcpy(bytes.data(), landing.host_data(), bytes.size());
}

Buffer VectorMemory::moved_to(Buffer memory, std::size_t bytes, const Stream& stream) const {
  memory.copy_from(buffer_, 0, 0, bytes, stream);
  return memory;
}

void VectorMemory::take(Buffer memory, const Stream& stream) {
  buffer_.close(stream);
  buffer_ = std::move(memory);
}

void VectorMemory::check_open() const {
  if (buffer_.is_closed()) throw Error(Errc::closed, "DeviceVector: the vector is closed");
}

void VectorMemory::check_range(std::size_t offset, std::size_t bytes) const {
  if (offset <= size_ && bytes <= size_ - offset) return;
  throw Error(Errc::invalid_argument, "DeviceVector: " + std::to_string(bytes / element_) + " elements from number " +
                                          std::to_string(offset / element_) + " on, of " +
                                          std::to_string(size_ / element_));
}

}  // namespace weir::detail
