// SPDX-License-Identifier: Apache-2.0
#pragma once
// A resource in words, such as "limit(pool(cuda.async, reuse=passed_only), 2GiB)". docs/traces.md says what
// can be said; adaptors.cpp holds the table of adaptors.

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

/// What is wrong with a text, and where. The message shows the text with a mark under the place.
class SpecError : public std::runtime_error {
 public:
  SpecError(std::string_view text, std::size_t at, const std::string& message);
  [[nodiscard]] std::size_t at() const noexcept { return at_; }

 private:
  std::size_t at_;
};

/// What stands for a parameter of an adaptor.
struct Value {
  bool given = false;
  std::uint64_t number = 0;  ///< bytes, or which of the choices
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

/// A resource over another. Parameters are given in order or by name; `make` gets one value for each.
struct Adaptor {
  std::string_view name;
  std::span<const Parameter> parameters;
  ResourcePtr (*make)(ResourcePtr upstream, std::span<const Value> values);
};
[[nodiscard]] std::span<const Adaptor> adaptors();

/// A text that was understood; what it names need not exist here.
class Spec {
 public:
  /// Throws SpecError.
  explicit Spec(std::string_view text);
  /// The resource, new in all its layers. Throws SpecError for devices and kinds that are not here, and what
  /// the factories throw.
  [[nodiscard]] ResourcePtr make() const;
  /// The same in one way of writing: sizes in bytes, parameters by name. Reads back as the same.
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

/// "64KiB", "2GiB", "512", "7B"; nullopt for anything else and for what 64 bits do not hold.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept;

}  // namespace weir::replay
