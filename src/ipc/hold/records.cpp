// SPDX-License-Identifier: Apache-2.0
#include "ipc/hold/records.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ipc/bytes.hpp"
#include "ipc/text.hpp"

namespace weir::detail::hold {
namespace {

enum At : std::size_t {
  at_size = 0, at_name = 2, at_dimensions = 4, at_code = 5, at_bits = 6, at_zero = 7, at_segment = 8, at_lanes = 12,
  at_zero_too = 14, at_offset = 16, at_bytes = 24, at_byte_offset = 32, fixed_size = 40,
};
constexpr std::size_t unit = 8;
constexpr std::size_t record_head = 8;  // of a packet of Tensors
constexpr std::uint16_t type = 5;       // of that message

constexpr std::size_t whole(std::size_t bytes) { return (bytes + unit - 1) / unit * unit; }

Record read_record(Bytes bytes) {
  Record record;
  const std::size_t name = get<std::uint16_t>(bytes, at_name);
  const std::size_t dimensions = get<std::uint8_t>(bytes, at_dimensions);
  if (name == 0 || name > most_name) violated("a tensor's name of " + std::to_string(name) + " bytes");
  if (dimensions > most_dimensions) violated("a tensor of " + std::to_string(dimensions) + " dimensions");
  const std::size_t names = fixed_size + 2 * 8 * dimensions;
  if (whole(names + name) != bytes.size())
    violated("a tensor of " + std::to_string(bytes.size()) + " bytes, not " + std::to_string(whole(names + name)));
  if (std::ranges::any_of(bytes.subspan(names + name), [](std::byte b) { return b != std::byte{0}; }) ||
      bytes[at_zero] != std::byte{0} || get<std::uint16_t>(bytes, at_zero_too) != 0)
    violated("a reserved field of a tensor is not zero");
  record.name = {reinterpret_cast<const char*>(bytes.data()) + names, name};
  if (!is_text(record.name)) violated("a tensor's name that is not UTF-8, or has control characters");
  record.segment = get<std::uint32_t>(bytes, at_segment);
  record.offset = get<std::uint64_t>(bytes, at_offset);
  record.size = get<std::uint64_t>(bytes, at_bytes);
  if ((record.segment == Record::no_segment) != (record.size == 0))
    violated("a tensor of " + std::to_string(record.size) + " bytes and segment " + std::to_string(record.segment));
  Layout& layout = record.layout;
  layout.dtype = {get<std::uint8_t>(bytes, at_code), get<std::uint8_t>(bytes, at_bits),
                  get<std::uint16_t>(bytes, at_lanes)};
  layout.byte_offset = get<std::uint64_t>(bytes, at_byte_offset);
  layout.shape.resize(dimensions);
  layout.strides.resize(dimensions);
  for (std::size_t i = 0; i < dimensions; ++i) {
    layout.shape[i] = get<std::int64_t>(bytes, fixed_size + 8 * i);
    layout.strides[i] = get<std::int64_t>(bytes, fixed_size + 8 * (dimensions + i));
  }
  return record;
}

}  // namespace

void RecordWriter::add(const Record& record) {
  const std::size_t dimensions = record.layout.shape.size();
  const std::size_t names = fixed_size + 2 * 8 * dimensions;
  const std::size_t size = whole(names + record.name.size());
  if (packets_.empty() || size > largest_packet - packets_.back().size()) {
    packets_.emplace_back(record_head);
    put(packets_.back(), 0, type);
    count_ = 0;
  }
  Packet& packet = packets_.back();
  const std::size_t at = packet.size();
  packet.resize(at + size);
  const std::span<std::byte> bytes(packet.data() + at, size);
  put(bytes, at_size, static_cast<std::uint16_t>(size));
  put(bytes, at_name, static_cast<std::uint16_t>(record.name.size()));
  put(bytes, at_dimensions, static_cast<std::uint8_t>(dimensions));
  put(bytes, at_code, record.layout.dtype.code);
  put(bytes, at_bits, record.layout.dtype.bits);
  put(bytes, at_segment, record.segment);
  put(bytes, at_lanes, record.layout.dtype.lanes);
  put(bytes, at_offset, record.offset);
  put(bytes, at_bytes, record.size);
  put(bytes, at_byte_offset, static_cast<std::uint64_t>(record.layout.byte_offset));
  for (std::size_t i = 0; i < dimensions; ++i) {
    put(bytes, fixed_size + 8 * i, record.layout.shape[i]);
    put(bytes, fixed_size + 8 * (dimensions + i), record.layout.strides[i]);
  }
  std::memcpy(bytes.data() + names, record.name.data(), record.name.size());
  put(packet, 4, ++count_);
}

std::vector<Packet> RecordWriter::finish() {
  for (Packet& packet : packets_) packet.shrink_to_fit();
  return std::move(packets_);
}

void read_records(const Tensors& message, const std::function<void(Record&&)>& use) {
  Bytes rest = message.records;
  for (std::uint32_t i = 0; i < message.count; ++i) {
    if (rest.size() < fixed_size) violated("a tensor is missing");
    const std::size_t size = get<std::uint16_t>(rest, at_size);
    if (size < fixed_size || size > rest.size()) violated("a tensor of " + std::to_string(size) + " bytes");
    use(read_record(rest.first(size)));
    rest = rest.subspan(size);
  }
  if (!rest.empty()) violated("bytes behind the last tensor");
}

}  // namespace weir::detail::hold
