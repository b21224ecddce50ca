// SPDX-License-Identifier: Apache-2.0
#pragma once
// A JSON document, written front to back.

#include <concepts>
#include <string>
#include <string_view>

namespace weir::cli {

/// Appends to a string, and puts commas and quotes where they belong. Bytes that are not UTF-8 become U+FFFD.
class Json {
 public:
  Json& open(char bracket);   ///< '{' or '['
  Json& close(char bracket);  ///< '}' or ']'
  Json& key(std::string_view name);
  Json& value(std::string_view text);
  Json& value(const char* text) { return value(std::string_view{text}); }
  Json& value(std::same_as<bool> auto truth) { return literal(truth ? "true" : "false"); }
  template <std::integral T>
  requires(!std::same_as<T, bool>) Json& value(T number) { return literal(std::to_string(number)); }
  Json& value(std::floating_point auto number) { return literal(shortest(static_cast<double>(number))); }
  Json& null() { return literal("null"); }
  template <class T>
  Json& pair(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  [[nodiscard]] const std::string& text() const noexcept { return out_; }

 private:
  Json& literal(std::string_view text);
  static std::string shortest(double number);  // reads back as the same number; "null" when it is not finite
  void separate();
  void quote(std::string_view text);

  std::string out_;
  bool first_ = true;  // the next item needs no comma: it begins a bracket or follows a key
};

}  // namespace weir::cli
