// SPDX-License-Identifier: Apache-2.0
#include "ipc/names/packet.hpp"

#include "ipc/text.hpp"
#include "weir/error.hpp"

namespace weir::detail::names {

void violated(const std::string& how) {
  throw Error(Errc::corrupt_descriptor, "names: the other process broke the protocol: " + how);
}

void FieldWriter::text(std::string_view text) {
  number(static_cast<std::uint16_t>(text.size()));
  const auto bytes = std::as_bytes(std::span(text));
  packet_.insert(packet_.end(), bytes.begin(), bytes.end());
}

std::span<const std::byte> FieldReader::take(std::size_t bytes, const char* what) {
  if (bytes > rest_.size()) violated("the packet ends within " + std::string(what));
  const auto field = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return field;
}

std::string FieldReader::text(std::size_t most, const char* what) {
  const auto size = number<std::uint16_t>(what);
  if (size > most) violated(std::string(what) + " of " + std::to_string(size) + " bytes");
  const auto bytes = take(size, what);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_text(text)) violated(std::string(what) + " that is not UTF-8, or has control characters");
  return text;
}

void FieldReader::end() const {
  if (!rest_.empty()) violated(std::to_string(rest_.size()) + " bytes behind the end of a message");
}

}  // namespace weir::detail::names
