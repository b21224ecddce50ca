// SPDX-License-Identifier: Apache-2.0
#pragma once
// A resource in words, such as "limit(pool(cuda.async, reuse=passed_only), 2GiB)". docs/traces.md says what such a text
// may contain; adaptors.cpp holds the table of adaptors.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "weir/memory_resource.hpp"

namespace weir::replay {

/// Says what is wrong with a text, and where. The message shows the text with a mark under the place.
class SpecError : public std::runtime_error {
 public:
  SpecError(std::string_view text, std::size_t at, const std::string& message);
  [[nodiscard]] std::size_t at() const noexcept { return at_; }

 private:
  std::size_t at_;
};

/// The value of an adaptor's parameter.
struct Value {
  bool given = false;
  std::uint64_t number = 0;  ///< bytes, or the index of a choice
  std::string text;          ///< of a parameter of type text

  [[nodiscard]] std::size_t or_else(std::size_t otherwise) const noexcept {
    return given ? static_cast<std::size_t>(number) : otherwise;
  }
};

struct Parameter {
  enum class Type { bytes, choice, text };
  std::string_view name;
  Type type = Type::bytes;
  bool required = false;
  std::span<const std::string_view> choices{};
};

/// Makes a resource over another one. Parameters are given in order or by name; `make` gets one value for each.
struct Adaptor {
  std::string_view name;
  std::span<const Parameter> parameters;
  ResourcePtr (*make)(ResourcePtr upstream, std::span<const Value> values);
};
[[nodiscard]] std::span<const Adaptor> adaptors();

/// A text that was understood. What it names need not exist here.
class Spec {
 public:
  /// Read `text`. Throws SpecError.
  explicit Spec(std::string_view text);
  /// Make the resource, new in all its layers. Throws SpecError for devices and kinds that are not here, and where a
  /// factory throws Error; other exceptions of the factories pass.
  [[nodiscard]] ResourcePtr make() const;
  /// Return the same resource in one way of writing: sizes in bytes, parameters by name. The text reads back as the
  /// same Spec.
  [[nodiscard]] std::string to_string() const;

 private:
  friend class SpecParser;
  struct Layer {
    const Adaptor* adaptor;
    std::size_t at;
    std::vector<Value> values;
  };
  std::string text_;
  std::string base_;
  std::size_t base_at_ = 0;
  std::vector<Layer> layers_;  // outermost first
};

/// Return the bytes in a text such as "64KiB", "2GiB", "512" or "7B"; nullopt for any other text, and for more than 64
/// bits hold.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept;

}  // namespace weir::replay
