// SPDX-License-Identifier: Apache-2.0
#include "ipc/wire.hpp"

#include <algorithm>
#include <cstring>

#include "ipc/bytes.hpp"
#include "weir/error.hpp"

namespace weir::detail {
namespace {

// Version 1 is of memory in one part, and version 2 of memory in several.
constexpr std::uint16_t one_part = 1, several_parts = 2;

constexpr char magic[] = {'w', 'e', 'i', 'r', '.', 'i', 'p', 'c'};
constexpr std::uint32_t flag_read_only = 1;
constexpr std::uint32_t flag_ready = 2;
constexpr std::uint32_t flag_lease = 4;

// Offsets of the fields.
enum At : std::size_t {
  at_magic = 0,
  at_version = 8,
  at_size = 10,
  at_handle = 12,
  at_kind = 14,
  at_fds = 16,
  at_flags = 20,
  at_device = 24,
  at_boot = 40,
  at_segment = 56,
  at_segment_size = 72,
  at_offset = 80,
  at_bytes = 88,
  at_alignment = 96,
  at_backend = 104,
  at_driver = 120,
  at_reserved = 184,
  at_checksum = 248,
};
constexpr std::size_t backend_size = at_driver - at_backend;
constexpr std::size_t driver_size = at_reserved - at_driver;

void put_text(WireBytes& bytes, std::size_t at, std::size_t size, const std::string& text) {
  std::memcpy(bytes.data() + at, text.data(), std::min(text.size(), size - 1));
}

[[noreturn]] void corrupt(const std::string& field) {
  throw Error(Errc::corrupt_descriptor, "descriptor: " + field);
}

std::string get_text(std::span<const std::byte> bytes, std::size_t at, std::size_t size, const char* field) {
  const auto* text = reinterpret_cast<const char*>(bytes.data() + at);
  const auto* end = std::find(text, text + size, '\0');
  if (end == text + size) corrupt(std::string(field) + " is not terminated");
  if (!std::all_of(end, text + size, [](char c) { return c == '\0'; })) {
    corrupt(std::string(field) + " has bytes behind its end");
  }
  return {text, end};
}

// FNV-1a. It guards against accidents; the checks in decode() guard against strangers.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (const auto part : {bytes.first(at_checksum), bytes.subspan(wire_size)}) {
    for (const std::byte b : part) hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 1099511628211u;
  }
  return hash;
}

std::string number(std::uint64_t value) { return std::to_string(value); }

void check_version(std::uint16_t version) {
  if (version == one_part || version == several_parts) return;
  throw Error(Errc::incompatible, "descriptor: version " + number(version) + ", this process reads versions " +
                                      number(one_part) + " and " + number(several_parts));
}

std::vector<std::uint64_t> get_parts(std::span<const std::byte> bytes, std::uint64_t whole) {
  std::vector<std::uint64_t> parts;
  std::uint64_t rest = whole;
  for (std::size_t at = wire_size; at < bytes.size(); at += wire_part_size) {
    const auto part = get<std::uint64_t>(bytes, at);
    if (part == 0 || part > rest) corrupt("part of " + number(part) + " bytes in a segment of " + number(whole));
    rest -= part;
    parts.push_back(part);
  }
  if (rest != 0) corrupt("the parts of a segment of " + number(whole) + " have " + number(whole - rest) + " bytes");
  return parts;
}

}  // namespace

std::string wire_driver(const std::string& driver) { return driver.substr(0, driver_size - 1); }

WireBytes encode(const WireDescriptor& d) {
  WireBytes bytes(wire_size + d.parts.size() * wire_part_size);
  std::memcpy(bytes.data() + at_magic, magic, sizeof magic);
  put<std::uint16_t>(bytes, at_version, d.parts.empty() ? one_part : several_parts);
  put(bytes, at_size, static_cast<std::uint16_t>(bytes.size()));
  put(bytes, at_handle, static_cast<std::uint16_t>(d.handle));
  put(bytes, at_kind, static_cast<std::uint16_t>(d.kind));
  put(bytes, at_fds, static_cast<std::uint32_t>(d.fd_count()));
  put(bytes, at_flags, (d.read_only ? flag_read_only : 0u) | (d.has_ready ? flag_ready : 0u) | (d.has_lease ? flag_lease : 0u));
  put_uuid(bytes, at_device, d.device);
  put_uuid(bytes, at_boot, d.boot);
  put(bytes, at_segment, d.segment.high);
  put(bytes, at_segment + 8, d.segment.low);
  put(bytes, at_segment_size, d.segment_size);
  put(bytes, at_offset, d.offset);
  put(bytes, at_bytes, d.size);
  put(bytes, at_alignment, d.alignment);
  put_text(bytes, at_backend, backend_size, d.backend);
  put_text(bytes, at_driver, driver_size, d.driver);
  for (std::size_t i = 0; i < d.parts.size(); ++i) put(bytes, wire_size + i * wire_part_size, d.parts[i]);
  put(bytes, at_checksum, checksum(bytes));
  return bytes;
}

std::size_t whole_size(std::span<const std::byte> begin) noexcept {
  if (begin.size() < wire_size || std::memcmp(begin.data(), magic, sizeof magic) != 0) return wire_size;
  if (get<std::uint16_t>(begin, at_version) != several_parts) return wire_size;
  return std::clamp<std::size_t>(get<std::uint16_t>(begin, at_size), wire_size, most_wire_size);
}

WireDescriptor decode(std::span<const std::byte> bytes) {
  if (bytes.size() < wire_size) corrupt("has " + number(bytes.size()) + " bytes, not " + number(wire_size));
  if (std::memcmp(bytes.data() + at_magic, magic, sizeof magic) != 0) corrupt("magic is not \"weir.ipc\"");
  const auto version = get<std::uint16_t>(bytes, at_version);
  check_version(version);
  if (const auto size = get<std::uint16_t>(bytes, at_size); size != bytes.size())
    corrupt("has " + number(bytes.size()) + " bytes, its size field is " + number(size));
  const std::size_t tail = bytes.size() - wire_size, parts = tail / wire_part_size;
  const bool has_parts = version == several_parts;
  if (tail % wire_part_size != 0 || parts > most_wire_parts || (has_parts ? parts < 2 : parts != 0))
    corrupt("size field is " + number(bytes.size()) + " in version " + number(version));
  WireDescriptor d;
  const auto handle = get<std::uint16_t>(bytes, at_handle);
  if (!spi::is_handle_kind(handle)) corrupt("handle kind " + number(handle) + " is unknown");
  d.handle = static_cast<spi::HandleKind>(handle);
  const auto kind = get<std::uint16_t>(bytes, at_kind);
  if (!is_memory_kind(kind)) corrupt("memory kind " + number(kind) + " is unknown");
  d.kind = static_cast<MemoryKind>(kind);
  const auto flags = get<std::uint32_t>(bytes, at_flags);
  if ((flags & ~(flag_read_only | flag_ready | flag_lease)) != 0) corrupt("flags " + number(flags) + " has unknown bits");
  d.read_only = (flags & flag_read_only) != 0;
  d.has_ready = (flags & flag_ready) != 0;
  d.has_lease = (flags & flag_lease) != 0;
  d.parts.resize(parts);
  if (const auto fds = get<std::uint32_t>(bytes, at_fds); fds != d.fd_count()) {
    corrupt("file descriptor count is " + number(fds) + ", its flags need " + number(d.fd_count()));
  }
  d.device = get_uuid(bytes, at_device);
  d.boot = get_uuid(bytes, at_boot);
  d.segment = {get<std::uint64_t>(bytes, at_segment), get<std::uint64_t>(bytes, at_segment + 8)};
  if (d.segment == spi::SegmentId{}) corrupt("segment id is zero");
  d.segment_size = get<std::uint64_t>(bytes, at_segment_size);
  d.offset = get<std::uint64_t>(bytes, at_offset);
  d.size = get<std::uint64_t>(bytes, at_bytes);
  if (d.segment_size == 0 || d.segment_size > (std::uint64_t{1} << 62)) {
    corrupt("segment size " + number(d.segment_size) + " is impossible");
  }
  if (d.size == 0 || d.offset > d.segment_size || d.size > d.segment_size - d.offset) {
    corrupt("range of " + number(d.size) + " bytes at offset " + number(d.offset) + " does not lie in a segment of " +
            number(d.segment_size));
  }
  d.alignment = get<std::uint64_t>(bytes, at_alignment);
  if (d.alignment == 0 || (d.alignment & (d.alignment - 1)) != 0) {
    corrupt("alignment " + number(d.alignment) + " is not a power of two");
  }
  if (d.offset % d.alignment != 0) {
    corrupt("alignment " + number(d.alignment) + " is not that of offset " + number(d.offset));
  }
  d.backend = get_text(bytes, at_backend, backend_size, "backend");
  d.driver = get_text(bytes, at_driver, driver_size, "driver");
  for (std::size_t i = at_reserved; i < at_checksum; ++i) {
    if (bytes[i] != std::byte{0}) corrupt("reserved byte " + number(i) + " is not zero");
  }
  d.parts = get_parts(bytes, parts == 0 ? 0 : d.segment_size);
  if (get<std::uint64_t>(bytes, at_checksum) != checksum(bytes)) corrupt("checksum does not match");
  return d;
}

}  // namespace weir::detail
