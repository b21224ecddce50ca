// SPDX-License-Identifier: Apache-2.0

#include "dtype.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

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

const Entry* find(DType dtype) {
  const auto* found = std::ranges::find(table, dtype, &Entry::dtype);
  return found == table.end() ? nullptr : found;
}

/// Return "float32" for 'float32', numpy.dtype('float32'), numpy.float32 or torch.float32, and what NumPy takes
/// Python's own types for.
std::string name_in(nb::handle dtype) {
  const auto is = [&](PyTypeObject& type) { return dtype.ptr() == reinterpret_cast<PyObject*>(&type); };
  if (is(PyLong_Type)) return "int64";
  if (is(PyFloat_Type)) return "float64";
  if (is(PyComplex_Type)) return "complex128";
  if (PyType_Check(dtype.ptr())) return nb::cast<std::string>(dtype.attr("__name__"));
  const std::string text = nb::str(dtype).c_str();
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

}  // namespace

DType dtype_of(nb::handle dtype) {
  if (nb::isinstance<DType>(dtype)) return nb::cast<DType>(dtype);
  const std::string name = name_in(dtype);
  const auto* found = std::ranges::find(table, std::string_view{name}, &Entry::name);
  if (found != table.end()) return found->dtype;
  if (const Entry* known = find_short(name)) return known->dtype;
  std::string message = "no element type '" + name + "'; there are";
  for (const Entry& entry : table) message += " " + std::string{entry.name};
  throw nb::value_error(message.c_str());
}

std::string name_of(DType dtype) {
  const Entry* entry = find(dtype);
  return entry ? std::string{entry->name} : dtype.to_string();
}

std::string buffer_format(DType dtype) {
  const Entry* entry = find(dtype);
  if (!entry || !entry->format)
    throw nb::buffer_error(("the buffer protocol has no format for " + name_of(dtype)).c_str());
  return entry->format;
}

}  // namespace weir::python
