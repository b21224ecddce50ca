// SPDX-License-Identifier: Apache-2.0
#include "replay/spec.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include "weir/device.hpp"

namespace weir::replay {
namespace {

constexpr std::size_t longest = 4096;
constexpr std::size_t most_layers = 64;

std::string list(std::string so_far, std::string_view next) {
  return std::move(so_far.append(so_far.empty() ? "" : ", ").append(next));
}

std::string known_adaptors() {
  std::string names;
  for (const Adaptor& adaptor : adaptors()) names = list(std::move(names), adaptor.name);
  return names;
}

const Adaptor* find_adaptor(std::string_view name) {
  const auto all = adaptors();
  const auto found = std::ranges::find(all, name, &Adaptor::name);
  return found == all.end() ? nullptr : &*found;
}

ResourcePtr make_base(const std::string& base) {
  const auto dot = base.rfind('.');
  const Device where = device(base.substr(0, dot));
  if (dot == base.npos) return make_resource(where);
  const std::string kind = base.substr(dot + 1);
  std::string kinds;
  for (const KindInfo& info : where.kinds()) {
    if (to_string(info.kind) == kind) return make_resource(where, info.kind);
    kinds = list(std::move(kinds), to_string(info.kind));
  }
  throw Error(Errc::unsupported, where.id() + " has no memory of kind \"" + kind + "\"; it has " + kinds);
}

/// Return `text` in one line, and under it a mark at byte `at`.
std::string marked(std::string_view text, std::size_t at) {
  std::string line = "\n  ", mark = "\n  ";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    line += byte < 0x20 || byte == 0x7f ? '?' : text[i];
    if (i < at && (byte & 0xC0U) != 0x80U) mark += ' ';  // one space for each character of UTF-8
  }
  return line + mark + '^';
}

}  // namespace

SpecError::SpecError(std::string_view text, std::size_t at, const std::string& message)
    : std::runtime_error(message + marked(text, at)), at_(at) {}

std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  const auto unit = text.substr(static_cast<std::size_t>(end - text.data()));
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  const auto found = std::ranges::find(units, unit);
  if (found == units.end() && !unit.empty()) return std::nullopt;
  const auto shift = unit.empty() ? 0 : 10 * std::distance(units.begin(), found);
  if (number > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return number << shift;
}

/// spec := word | word '(' spec { ',' [ word '=' ] word } ')'
class SpecParser {
 public:
  SpecParser(std::string_view text, Spec& spec) : text_(text), spec_(spec) {}

  void parse() {
    if (text_.size() > longest) throw SpecError(text_.substr(0, 60), 0, "longer than any resource");
    for (; descend(); ++depth_) {
      if (depth_ == most_layers) fail(at_, "more layers than any resource has");
    }
    for (; depth_ > 0; --depth_) close(spec_.layers_[depth_ - 1]);
    skip_spaces();
    if (at_ != text_.size()) fail(at_, "more than one resource");
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& message) const {
    throw SpecError(text_, at, message);
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char wanted) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  std::string_view word(const char* what) {
    skip_spaces();
    const auto begin = at_;
    while (at_ < text_.size() && std::string_view("(),= \t\r\n").find(text_[at_]) == std::string_view::npos &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    if (at_ == begin) fail(begin, std::string(what) + " is missing");
    return text_.substr(begin, at_ - begin);
  }

  /// Read the name of an adaptor and return true, or read the name of the memory at the bottom and return false.
  bool descend() {
    const auto name = word("a resource");
    const auto begin = at_ - name.size();
    if (!take('(')) {
      if (find_adaptor(name))
        fail(begin, std::string(name) + " stands over another resource: " + std::string(name) + "(…)");
      spec_.base_ = name;
      spec_.base_at_ = begin;
      return false;
    }
    const Adaptor* const adaptor = find_adaptor(name);
    if (!adaptor)
      fail(begin, "no adaptor is called " + std::string(name) + "; there are " + known_adaptors());
    spec_.layers_.push_back({adaptor, begin, std::vector<Value>(adaptor->parameters.size())});
    return true;
  }

  void close(Spec::Layer& layer) {
    const Adaptor& adaptor = *layer.adaptor;
    for (std::size_t next = 0; take(','); ++next) {
      const auto first = word("a value");
      auto begin = at_ - first.size();
      std::size_t which = next;
      std::string_view value = first;
      if (take('=')) {
        const auto found = std::ranges::find(adaptor.parameters, first, &Parameter::name);
        if (found == adaptor.parameters.end()) fail(begin, no_parameter(adaptor, first));
        which = static_cast<std::size_t>(found - adaptor.parameters.begin());
        value = word("a value");
        begin = at_ - value.size();
      } else if (which >= adaptor.parameters.size()) {
        fail(begin, std::string(adaptor.name) + " takes no further value");
      }
      if (layer.values[which].given) {
        fail(begin, std::string(adaptor.parameters[which].name) + " is given twice");
      }
      layer.values[which] = read(adaptor.parameters[which], value, begin);
    }
    if (!take(')'))
      fail(at_, "a comma or the closing bracket of " + std::string(adaptor.name) + " is missing");
    for (std::size_t i = 0; i < adaptor.parameters.size(); ++i) {
      const Parameter& parameter = adaptor.parameters[i];
      if (parameter.required && !layer.values[i].given) {
        fail(layer.at, std::string(adaptor.name) + " needs " + std::string(parameter.name));
      }
    }
  }

  static std::string no_parameter(const Adaptor& adaptor, std::string_view name) {
    std::string names;
    for (const Parameter& parameter : adaptor.parameters) names = list(std::move(names), parameter.name);
    return std::string(adaptor.name) + " has no parameter " + std::string(name) +
           (names.empty() ? std::string() : "; it has " + names);
  }

  Value read(const Parameter& parameter, std::string_view text, std::size_t begin) const {
    if (parameter.type == Parameter::Type::text) return {true, 0, std::string(text)};
    if (parameter.type == Parameter::Type::bytes) {
      const auto bytes = parse_bytes(text);
      if (!bytes) fail(begin, std::string(text) + " is not a size such as 64KiB or 2GiB");
      return {true, *bytes, {}};
    }
    const auto found = std::ranges::find(parameter.choices, text);
    if (found != parameter.choices.end()) {
      return {true, static_cast<std::uint64_t>(found - parameter.choices.begin()), {}};
    }
    std::string names;
    for (const auto choice : parameter.choices) names = list(std::move(names), choice);
    fail(begin, std::string(parameter.name) + " is one of " + names);
  }

  std::string_view text_;
  Spec& spec_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
};

Spec::Spec(std::string_view text) : text_(text) { SpecParser(text_, *this).parse(); }

ResourcePtr Spec::make() const {
  std::size_t at = base_at_;
  try {
    ResourcePtr resource = make_base(base_);
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      at = layer->at;
      resource = layer->adaptor->make(std::move(resource), layer->values);
    }
    return resource;
  } catch (const Error& error) {
    throw SpecError(text_, at, error.what());
  }
}

std::string Spec::to_string() const {
  std::string text = base_;
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    text = std::string(layer->adaptor->name) + '(' + text;
    for (std::size_t i = 0; i < layer->values.size(); ++i) {
      const Parameter& parameter = layer->adaptor->parameters[i];
      const Value& value = layer->values[i];
      if (!value.given) continue;
      text += ", " + std::string(parameter.name) + '=';
      switch (parameter.type) {
        case Parameter::Type::bytes: text += std::to_string(value.number); break;
        case Parameter::Type::choice: text += parameter.choices[value.number]; break;
        case Parameter::Type::text: text += value.text; break;
      }
    }
    text += ')';
  }
  return text;
}

}  // namespace weir::replay
