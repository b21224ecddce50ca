// SPDX-License-Identifier: Apache-2.0

#include "dtype.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <string_view>
#include <system_error>

#include "texts.hpp"

namespace weir::python {
namespace {

struct Entry {
  std::string_view name;
  DType dtype;
  const char* format;  // null: PEP 3118 has none
};

constexpr std::array table{
    Entry{"uint8", u8, "B"},       Entry{"int8", i8, "b"},          Entry{"uint16", u16, "H"},
    Entry{"int16", i16, "h"},      Entry{"uint32", u32, "I"},       Entry{"int32", i32, "i"},
    Entry{"uint64", u64, "Q"},     Entry{"int64", i64, "q"},        Entry{"float16", f16, "e"},
    Entry{"float32", f32, "f"},    Entry{"float64", f64, "d"},      Entry{"bfloat16", bf16, nullptr},
    Entry{"complex64", c64, "Zf"}, Entry{"complex128", c128, "Zd"}, Entry{"bool", bool8, "?"},
};

// Those of a byte and less, which DType names.
constexpr DType small_floats[] = {{7, 8, 1},  {8, 8, 1},  {9, 8, 1},  {10, 8, 1}, {11, 8, 1}, {12, 8, 1},
                                  {13, 8, 1}, {14, 8, 1}, {15, 6, 1}, {16, 6, 1}, {17, 4, 1}};

const Entry* find(DType dtype) {
  const auto* found = std::ranges::find(table, dtype, &Entry::dtype);
  return found == table.end() ? nullptr : found;
}

/// Return whether a class stands for a type of elements: a scalar of NumPy or of a library that extends it, or what
/// JAX has instead.
bool is_scalar_class(nb::handle type) {
  PyObject* const numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  if (!numpy) return false;
  const nb::handle library(numpy);
  const int scalar = PyObject_IsSubclass(type.ptr(), nb::object(library.attr("generic")).ptr());
  if (scalar < 0) throw nb::python_error();
  return scalar != 0 || nb::isinstance(nb::getattr(type, "dtype", nb::none()), library.attr("dtype"));
}

/// Return "float32" for numpy.float32, and "class float32" for a class of that name that is another's.
std::string name_of_class(nb::handle type) {
  const std::string name = shown(type.attr("__name__"));
  if (type.ptr() != reinterpret_cast<PyObject*>(&PyBool_Type) && !is_scalar_class(type)) return "class " + name;
  if (name == "longlong") return "int64";  // where int64 is another type of C
  return name == "ulonglong" ? "uint64" : name;
}

/// Return "float32" for 'float32', numpy.dtype('float32'), numpy.float32 or torch.float32, and what NumPy takes
/// Python's own types for.
std::string name_in(nb::handle dtype) {
  const auto is = [&](PyTypeObject& type) { return dtype.ptr() == reinterpret_cast<PyObject*>(&type); };
  if (is(PyLong_Type)) return "int64";
  if (is(PyFloat_Type)) return "float64";
  if (is(PyComplex_Type)) return "complex128";
  if (PyType_Check(dtype.ptr())) return name_of_class(dtype);
  const std::string text = shown(dtype);
  return text.substr(text.rfind('.') + 1);
}

/// Find NumPy's short names: "f4", "<f4", "|u1". The byte order has to be this machine's.
const Entry* find_short(std::string_view name) {
  constexpr std::string_view kinds = "iufcb";
  constexpr std::uint8_t codes[] = {i8.code, u8.code, f32.code, c64.code, bool8.code};
  constexpr char native = std::endian::native == std::endian::little ? '<' : '>';
  if (!name.empty() && (name[0] == native || name[0] == '=' || name[0] == '|')) name.remove_prefix(1);
  const auto kind = name.empty() ? std::string_view::npos : kinds.find(name[0]);
  if (name == "?") return find(bool8);
  if (kind == std::string_view::npos || name.size() < 2 || name.size() > 3) return nullptr;
  unsigned bytes = 0;
  for (const char digit : name.substr(1)) {
    if (digit < '0' || digit > '9') return nullptr;
    bytes = 10 * bytes + static_cast<unsigned>(digit - '0');
  }
  return bytes > 16 ? nullptr : find({codes[kind], static_cast<std::uint8_t>(8 * bytes), 1});
}

/// Find what else DType names and tensors of others may have: "complex32", and "int4" as a lane. Only widths that are
/// powers of two, so that a slip of the pen stays an error.
std::optional<DType> find_rare(std::string_view name, unsigned least_bits) {
  if (name == "bool8") return bool8;  // as a lane
  const auto digits = name.find_last_not_of("0123456789") + 1;
  std::uint8_t bits = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + std::min(digits, name.size()), end, bits);
  if (read.ec != std::errc() || read.ptr != end || !std::has_single_bit(bits) || bits < least_bits) return std::nullopt;
  constexpr DType handle{3, 64, 1};
  for (const DType& one : {i8, u8, handle, f16, bf16, c64}) {
    const DType wanted{one.code, bits, 1};
    const bool whole = one.code == i8.code || one.code == u8.code || one.code == handle.code;
    if ((whole || bits >= 16) && wanted.to_string() == name) return wanted;
  }
  return std::nullopt;
}

std::optional<DType> find_one(std::string_view name, unsigned least_bits) {
  const auto* found = std::ranges::find(table, name, &Entry::name);
  if (found != table.end()) return found->dtype;
  for (const DType& small : small_floats)
    if (name == small.to_string()) return small;
  if (const Entry* known = find_short(name)) return known->dtype;
  return find_rare(name, least_bits);
}

/// Find the type of several lanes: "float4_e2m1fnx2", or PyTorch's "float4_e2m1fn_x2".
std::optional<DType> find_lanes(std::string_view name) {
  const auto x = name.rfind('x');
  if (x == std::string_view::npos) return std::nullopt;
  unsigned lanes = 0;
  const char* const end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + x + 1, end, lanes);
  if (read.ec != std::errc() || read.ptr != end || lanes < 2 || lanes > 65535) return std::nullopt;
  name = name.substr(0, x);
  if (name.ends_with('_')) name.remove_suffix(1);
  std::optional<DType> one = find_one(name, 1);
  if (one) one->lanes = static_cast<std::uint16_t>(lanes);
  return one;
}

std::optional<DType> find_named(std::string_view name) {
  const std::optional<DType> one = find_one(name, 8);  // a single int4 of NumPy fills a byte
  return one ? one : find_lanes(name);
}

/// Return a text without zero bytes, at which a message would end.
std::string visible(std::string text) {
  for (std::size_t at = 0; (at = text.find('\0', at)) != std::string::npos;) text.replace(at, 1, "\\0");
  return text;
}

}  // namespace

std::optional<DType> known_dtype(nb::handle dtype) { return find_named(name_in(dtype)); }

DType dtype_of(nb::handle dtype) {
  const std::string name = name_in(dtype);
  if (const auto known = find_named(name)) return *known;
  std::string message = "no element type '" + visible(name) + "'; there are";
  for (const Entry& entry : table) message += " " + std::string{entry.name};
  for (const DType& small : small_floats) message += " " + small.to_string();
  message += ", and several lanes of one, such as uint8x4";
  throw nb::value_error(message.c_str());
}

std::string name_of(DType dtype) {
  const Entry* entry = find(dtype);
  return entry ? std::string{entry->name} : dtype.to_string();
}

bool has_buffer_format(DType dtype) {
  const Entry* entry = find(dtype);
  return entry && entry->format;
}

std::string buffer_format(DType dtype) {
  const Entry* entry = find(dtype);
  if (!entry || !entry->format)
    throw nb::buffer_error(("the buffer protocol has no format for " + name_of(dtype)).c_str());
  return entry->format;
}

}  // namespace weir::python
