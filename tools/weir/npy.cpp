// SPDX-License-Identifier: Apache-2.0
#include "npy.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <vector>

#include "weir/error.hpp"

namespace weir::cli {
namespace {

constexpr char magic[] = "\x93NUMPY";
constexpr std::size_t longest_header = 1 << 16;

struct Named {
  DType type;
  const char* code;
};
constexpr Named types[] = {{i8, "|i1"},  {i16, "<i2"}, {i32, "<i4"},   {i64, "<i8"},  {u8, "|u1"},
                           {u16, "<u2"}, {u32, "<u4"}, {u64, "<u8"},   {f16, "<f2"},  {f32, "<f4"},
                           {f64, "<f8"}, {c64, "<c8"}, {c128, "<c16"}, {bool8, "|b1"}};

[[noreturn]] void fail(const std::string& why) { throw Error(Errc::invalid_argument, "not a file of NumPy: " + why); }

// Return what stands behind `key` in the dictionary.
std::string_view behind(std::string_view header, const std::string& key) {
  const auto at = header.find('\'' + key + "':");
  if (at == header.npos) fail("its header has no '" + key + '\'');
  auto rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

DType type_of(std::string_view header) {
  const auto value = behind(header, "descr");
  const auto end = value.find('\'', 1);
  if (!value.starts_with('\'') || end == value.npos) fail("its type is not a simple one");
  const auto code = value.substr(1, end - 1);
  const auto* const known = std::ranges::find_if(types, [&](const Named& type) { return code == type.code; });
  if (known == std::end(types)) fail("weir has no type '" + std::string(code) + '\'');
  return known->type;
}

std::vector<std::int64_t> shape_of(std::string_view header) {
  auto value = behind(header, "shape");
  const auto end = value.find(')');
  if (!value.starts_with('(') || end == value.npos) fail("its shape is no tuple");
  value = value.substr(1, end - 1);
  std::vector<std::int64_t> shape;
  while (!value.empty()) {
    std::int64_t extent = -1;
    const auto [stopped, error] = std::from_chars(value.data(), value.data() + value.size(), extent);
    if (error != std::errc{} || extent < 0) fail("its shape has no number where one should be");
    shape.push_back(extent);
    value.remove_prefix(static_cast<std::size_t>(stopped - value.data()));
    value.remove_prefix(std::min(value.find_first_not_of(", "), value.size()));
  }
  return shape;
}

}  // namespace

std::optional<DType> dtype_named(std::string_view name) {
  for (const Named& known : types) {
    if (known.type.to_string() == name) return known.type;
  }
  return bf16.to_string() == name ? std::optional(bf16) : std::nullopt;
}

Layout read_npy_header(std::istream& file) {
  char start[8];
  if (!file.read(start, sizeof start) || std::string_view(start, 6) != magic) fail("it begins with something else");
  const auto byte = [&] {
    const int read = file.get();
    if (read < 0) fail("it ends within the header");
    return static_cast<std::size_t>(read);
  };
  const bool is_old = start[6] == 1;
  std::size_t size = 0;
  for (unsigned i = 0; i < (is_old ? 2U : 4U); ++i) size |= byte() << (8 * i);
  if (size > longest_header) fail("its header has " + std::to_string(size) + " bytes");
  std::string header(size, ' ');
  if (!file.read(header.data(), static_cast<std::streamsize>(size))) fail("it ends within the header");
  auto shape = shape_of(header);
  if (!behind(header, "fortran_order").starts_with("True")) return Layout::compact(type_of(header), std::move(shape));
  std::ranges::reverse(shape);
  return Layout::compact(type_of(header), std::move(shape)).transpose();
}

std::string npy_header(const Layout& layout) {
  const auto* const known = std::ranges::find_if(types, [&](const Named& type) { return type.type == layout.dtype; });
  if (known == std::end(types))
    throw Error(Errc::unsupported, "files of NumPy have no type " + layout.dtype.to_string());
  std::string text = "{'descr': '" + std::string(known->code) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t extent : layout.shape) text += std::to_string(extent) + ", ";
  if (layout.shape.size() > 1) text.resize(text.size() - 2);
  text += "), }";
  constexpr std::size_t before = 10, unit = 64;  // the elements begin at a multiple
  text.append(unit - 1 - (before + text.size()) % unit, ' ').push_back('\n');
  std::string header(magic, 6);
  header += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace weir::cli
