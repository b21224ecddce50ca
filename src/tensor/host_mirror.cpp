// SPDX-License-Identifier: Apache-2.0
#include "weir/host_mirror.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include "base/refuse.hpp"
#include "copy/checks.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/segment.hpp"

namespace weir {
namespace {

void check_side(const Buffer& buffer) {
  (void)detail::open_operand("HostMirror", buffer);
  if (buffer.is_read_only()) detail::refuse("HostMirror", "the memory is read-only");
}

// The two have the same size.
void check_sides_apart(const Buffer& device, const Buffer& host) {
  if (&device == &host) detail::refuse("HostMirror", "both sides are one buffer");
  if (device.size() == 0) return;
  const auto place = [](const Buffer& side) { return detail::open_operand("HostMirror", side).at(0); };
  if (const auto shared = detail::shared_bytes(place(device), place(host), device.size()))
    detail::refuse("HostMirror", std::to_string(shared) + " bytes of the device's side are also the host's");
}

// Memory for uploads is slow to read, and what is mapped on a device may be.
bool is_cached(MemoryKind kind) {
  return kind == MemoryKind::pageable || kind == MemoryKind::shared || kind == MemoryKind::pinned ||
         kind == MemoryKind::managed || kind == MemoryKind::readback;
}

// What is not coherent needs a copy, because the syncs could not tell which bytes the host has written.
bool serves_both(const Buffer& buffer) {
  const spi::Segment* const segment = buffer.location().segment;
  return !segment || (segment->host_accessible() && segment->host_coherent && is_cached(segment->kind));
}

Buffer host_memory_for(const Buffer& device, const Stream& stream) {
  const Device owner = device.device();
  return make_resource(owner, owner.staging_kind())->allocate(device.size(), stream);
}

}  // namespace

HostMirror::HostMirror(Buffer&& device, const Stream& stream) {
  check_side(device);
  (void)stream.state();
  one_memory_ = serves_both(device);
  host_ = one_memory_ ? device.share() : host_memory_for(device, stream);
  device_ = std::move(device);
}

HostMirror::HostMirror(Buffer&& device, Buffer&& host) {
  check_side(device);
  check_side(host);
  if (device.size() != host.size())
    detail::refuse("HostMirror", "the device's side has " + std::to_string(device.size()) + " bytes, the host's " +
           std::to_string(host.size()));
  if (!host.is_host_accessible())
    detail::refuse("HostMirror",
                   "the host cannot reach " + std::string(to_string(host.kind())) + " memory of " + host.device().id());
  check_sides_apart(device, host);
  device_ = std::move(device);
  host_ = std::move(host);
}

void HostMirror::sync_to_device(const Stream& stream) { sync_to_device(0, size(), stream); }
void HostMirror::sync_to_device(std::size_t offset, std::size_t bytes, const Stream& stream) {
  if (!check("HostMirror::sync_to_device", offset, bytes, stream)) return;
  const spi::Location side = host_.location();
  side.segment->after_host_write(side.offset + offset, bytes);
  device_.copy_from(host_, offset, offset, bytes, stream);
}

void HostMirror::sync_to_host(const Stream& stream) { sync_to_host(0, size(), stream); }
void HostMirror::sync_to_host(std::size_t offset, std::size_t bytes, const Stream& stream) {
  if (!check("HostMirror::sync_to_host", offset, bytes, stream)) return;
  host_.copy_from(device_, offset, offset, bytes, stream);
  const spi::Location side = host_.location();
  if (side.segment->host_coherent) return;
  host_.use_on(stream);  // may fail for want of memory, so it comes before the work
  stream.call([side, offset, bytes] { side.segment->before_host_read(side.offset + offset, bytes); });
  host_.use_on(stream);
}

// Return whether there is anything to copy.
bool HostMirror::check(const char* operation, std::size_t offset, std::size_t bytes, const Stream& stream) const {
  const auto opened = detail::open_operand(operation, device_);
  (void)detail::open_operand(operation, host_);
  (void)stream.state();
  detail::check_range(operation, "buffer", opened, offset, bytes);
  return !one_memory_ && bytes != 0;
}

std::byte* HostMirror::host_bytes(std::size_t size, std::size_t alignment) const {
  (void)detail::open_operand("HostMirror::span", host_);
  if (host_.size() % size != 0)
    detail::refuse("HostMirror", std::to_string(host_.size()) + " bytes are not a whole number of elements of " +
                                     std::to_string(size));
  std::byte* const first = host_.host_data();
  if (reinterpret_cast<std::uintptr_t>(first) % alignment != 0)
    detail::refuse("HostMirror", "the memory is not aligned to " + std::to_string(alignment) + " bytes");
  return first;
}

void HostMirror::close() noexcept {
  host_.close();
  device_.close();
}

}  // namespace weir
