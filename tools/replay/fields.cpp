// SPDX-License-Identifier: Apache-2.0
#include "replay/fields.hpp"

#include <charconv>
#include <string>

#include "replay/trace.hpp"

namespace weir::replay {

std::string quoted(std::string_view text) {
  constexpr std::size_t most = 60;
  std::string out = "\"";
  for (const char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out + (text.size() > most ? "…\"" : "\"");
}

Fields::Fields(std::string_view text, char separator, std::span<const std::string_view> names,
               std::uint64_t line)
    : names_(names), line_(line) {
  std::size_t count = 0;
  for (bool more = true; more;) {
    const auto end = text.find(separator);
    more = end != text.npos;
    if (count < names.size()) fields_[count] = text.substr(0, end);
    ++count;
    if (more) text.remove_prefix(end + 1);
  }
  if (count != names.size()) {
    throw TraceError(line, std::to_string(count) + (count == 1 ? " field" : " fields") + " instead of " +
                               std::to_string(names.size()));
  }
}

std::uint64_t Fields::number(std::size_t field) const {
  std::string_view digits = text(field);
  const bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
  if (hexadecimal) digits.remove_prefix(2);
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, value, hexadecimal ? 16 : 10);
  if (error != std::errc{} || stopped != end) refuse(field, "a number below 2^64");
  return value;
}

void Fields::refuse(std::size_t field, std::string_view wanted) const {
  throw TraceError(
      line_, std::string(names_[field]) + " is " + quoted(text(field)) + ", not " + std::string(wanted));
}

}  // namespace weir::replay
