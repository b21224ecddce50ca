// SPDX-License-Identifier: Apache-2.0
#include "ipc/ring/greeting.hpp"

#include <cstring>
#include <string>

#include "ipc/bytes.hpp"
#include "weir/error.hpp"

namespace weir::detail::ring {
namespace {

constexpr char magic[] = {'w', 'e', 'i', 'r', 'r', 'i', 'n', 'g'};
constexpr std::uint16_t version = 1;

// Offsets of the fields. The shape and then the strides follow, 8 bytes for each extent.
enum At : std::size_t {
  at_magic = 0,
  at_version = 8,
  at_has_layout = 10,
  at_dimensions = 11,
  at_code = 12,
  at_bits = 13,
  at_lanes = 14,
  at_first = 16,
  at_offset = 24,
  at_shape = 32,
};

void check_version(std::uint16_t theirs) {
  if (theirs != version)
    throw Error(Errc::incompatible, "ipc::RingConsumer: the producer speaks version " + std::to_string(theirs) +
                                        " of the ring's protocol, this process version " + std::to_string(version));
}

}  // namespace

void corrupt(const char* how) {
  throw Error(Errc::corrupt_descriptor, std::string("ipc::RingConsumer: the other end is no ring's producer: ") + how);
}

std::vector<std::byte> encode(const Greeting& greeting) {
  const std::size_t dimensions = greeting.layout ? greeting.layout->shape.size() : 0;
  std::vector<std::byte> bytes(at_shape + 16 * dimensions);
  std::memcpy(bytes.data() + at_magic, magic, sizeof magic);
  put(bytes, at_version, version);
  put(bytes, at_first, greeting.first);
  if (!greeting.layout) return bytes;
  const Layout& layout = *greeting.layout;
  put(bytes, at_has_layout, std::uint8_t{1});
  put(bytes, at_dimensions, static_cast<std::uint8_t>(dimensions));
  put(bytes, at_code, layout.dtype.code);
  put(bytes, at_bits, layout.dtype.bits);
  put(bytes, at_lanes, layout.dtype.lanes);
  put(bytes, at_offset, std::uint64_t{layout.byte_offset});
  for (std::size_t i = 0; i < dimensions; ++i) {
    put(bytes, at_shape + 8 * i, layout.shape[i]);
    put(bytes, at_shape + 8 * (dimensions + i), layout.strides[i]);
  }
  return bytes;
}

Greeting decode_greeting(std::span<const std::byte> bytes) {
  if (bytes.size() < at_shape || std::memcmp(bytes.data() + at_magic, magic, sizeof magic) != 0)
    corrupt("its first buffer brings no greeting");
  check_version(get<std::uint16_t>(bytes, at_version));
  const auto has_layout = get<std::uint8_t>(bytes, at_has_layout);
  const std::size_t dimensions = get<std::uint8_t>(bytes, at_dimensions);
  if (has_layout > 1 || dimensions > most_dimensions || (has_layout == 0 && dimensions != 0) ||
      bytes.size() != at_shape + 16 * dimensions)
    corrupt("its greeting has another size than its layout");
  Greeting greeting{.first = get<std::uint64_t>(bytes, at_first)};
  if (has_layout == 0) return greeting;
  Layout layout;
  layout.dtype = {get<std::uint8_t>(bytes, at_code), get<std::uint8_t>(bytes, at_bits),
                  get<std::uint16_t>(bytes, at_lanes)};
  layout.byte_offset = get<std::uint64_t>(bytes, at_offset);
  for (std::size_t i = 0; i < dimensions; ++i) {
    layout.shape.push_back(get<std::int64_t>(bytes, at_shape + 8 * i));
    layout.strides.push_back(get<std::int64_t>(bytes, at_shape + 8 * (dimensions + i)));
    if (layout.shape.back() < 0) corrupt("its layout has a negative extent");
  }
  if (layout.dtype.bits == 0 || layout.dtype.lanes == 0) corrupt("its layout has elements without bits");
  try {
    (void)layout.bytes_needed();
  } catch (const Error&) {
    corrupt("its layout reaches beyond all memory");
  }
  greeting.layout = std::move(layout);
  return greeting;
}

std::vector<std::byte> encode_frame(std::span<const std::byte> payload) {
  std::vector<std::byte> bytes(sequence_bytes + payload.size());
  if (!payload.empty()) std::memcpy(bytes.data() + sequence_bytes, payload.data(), payload.size());
  return bytes;
}

void number_frame(std::span<std::byte> bytes, std::uint64_t sequence) noexcept { put(bytes, 0, sequence); }

std::uint64_t take_sequence(std::vector<std::byte>& bytes) {
  if (bytes.size() < sequence_bytes) corrupt("a frame has no number");
  const auto sequence = get<std::uint64_t>(bytes, 0);
  bytes.erase(bytes.begin(), bytes.begin() + sequence_bytes);
  return sequence;
}

}  // namespace weir::detail::ring
