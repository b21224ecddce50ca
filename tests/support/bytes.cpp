// SPDX-License-Identifier: Apache-2.0
#include "bytes.hpp"

#include <algorithm>
#include <cstring>
#include <iomanip>

#include "weir/spi/segment.hpp"

namespace weir::test {

Bytes pattern(std::size_t count, std::uint32_t seed) {
  Bytes bytes(count);
  std::uint32_t state = seed * 2654435761U + 1;
  for (std::byte *byte = bytes.data(), *end = byte + count; byte != end; ++byte) {  // quick also without optimization
    state = state * 1664525U + 1013904223U;
    *byte = static_cast<std::byte>(state >> 24U);
  }
  return bytes;
}

Bytes repeat(std::size_t count, unsigned char value) { return Bytes(count, std::byte{value}); }

Bytes part(std::span<const std::byte> bytes, std::size_t offset, std::size_t count) {
  const auto range = bytes.subspan(offset, count);
  return {range.begin(), range.end()};
}

void write(Buffer& buffer, std::span<const std::byte> bytes, const Stream& stream) { buffer.copy_from(bytes, stream); }

Bytes read(const Buffer& buffer, const Stream& stream) {
  Bytes bytes(buffer.size());
  buffer.copy_to(bytes, stream);
  stream.synchronize();
  return bytes;
}

void before_host_read(const Buffer& buffer) {
  const auto place = buffer.location();
  place.segment->before_host_read(place.offset, buffer.size());
}

void after_host_write(const Buffer& buffer) {
  const auto place = buffer.location();
  place.segment->after_host_write(place.offset, buffer.size());
}

testing::AssertionResult same_bytes(std::span<const std::byte> actual, std::span<const std::byte> expected) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " bytes, expected " << expected.size();
  }
  if (actual.empty() || std::memcmp(actual.data(), expected.data(), actual.size()) == 0) {
    return testing::AssertionSuccess();
  }
  const auto [here, there] = std::mismatch(actual.begin(), actual.end(), expected.begin());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) wrong += actual[i] != expected[i] ? 1 : 0;
  return testing::AssertionFailure() << wrong << " of " << actual.size() << " bytes differ, first byte "
                                     << here - actual.begin() << " is 0x" << std::hex << std::setfill('0')
                                     << std::setw(2) << static_cast<unsigned>(*here) << ", expected 0x" << std::setw(2)
                                     << static_cast<unsigned>(*there);
}

}  // namespace weir::test
