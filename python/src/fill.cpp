// SPDX-License-Identifier: Apache-2.0

#include "fill.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "dtype.hpp"
#include "host_bytes.hpp"
#include "integers.hpp"

namespace weir::python {
namespace {

constexpr const char* taken = "an int, a float, a bool, 1, 2, 4 or 8 bytes, or a scalar of NumPy";

bool can_repeat(std::size_t bytes) { return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8; }

template <class T>
Pattern pattern_from(T value) {
  Pattern pattern{0, sizeof value};
  std::memcpy(&pattern.value, &value, sizeof value);
  return pattern;
}

Pattern from_bytes(std::span<const std::byte> bytes, const char* what) {
  if (!can_repeat(bytes.size()))
    throw nb::value_error(
        (std::string(what) + " has " + std::to_string(bytes.size()) + " bytes; a fill repeats 1, 2, 4 or 8 of them")
            .c_str());
  Pattern pattern{0, bytes.size()};
  std::memcpy(&pattern.value, bytes.data(), bytes.size());
  return pattern;
}

void append(std::vector<std::byte>& bytes, const Pattern& pattern) {
  const auto* const first = reinterpret_cast<const std::byte*>(&pattern.value);
  bytes.insert(bytes.end(), first, first + pattern.bytes);
}

[[noreturn]] void does_not_fit(const std::string& into) {
  PyErr_Clear();
  throw nb::value_error(("value does not fit into " + into).c_str());
}

enum class Sign { any, with, without };  // of the numbers of a width that are taken

/// Return the low bytes of an int, which must fit as a number with or without a sign.
Pattern from_int(nb::handle value, std::size_t bytes, Sign sign, const std::string& into) {
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index) {  // NumPy's arrays have __index__, too
    PyErr_Clear();
    wrong_type(value, "value", taken);
  }
  const std::uint64_t most = ~std::uint64_t{0} >> (64 - 8 * bytes);
  const std::uint64_t most_with = most >> 1;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  const std::uint64_t low = PyLong_AsUnsignedLongLongMask(index.ptr());
  bool fits = sign != Sign::without && number >= -static_cast<long long>(most_with) - 1;
  if (overflow == 0 && number >= 0) fits = low <= (sign == Sign::with ? most_with : most);
  if (overflow > 0)
    fits = bytes == 8 && sign != Sign::with && PyLong_AsUnsignedLongLong(index.ptr()) == low && !PyErr_Occurred();
  if (overflow < 0 || !fits) does_not_fit(into);
  return {low & most, bytes};
}

/// Return the bytes of a number of Python's module struct.
Pattern packed(const char* format, nb::handle value, const std::string& into) {
  PyObject* const made = PyObject_CallMethod(nb::module_::import_("struct").ptr(), "pack", "sO", format, value.ptr());
  if (!made && PyErr_ExceptionMatches(PyExc_OverflowError)) does_not_fit(into);
  if (!made) throw nb::python_error();
  const auto bytes = nb::steal<nb::bytes>(made);
  return from_bytes({reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()}, "value");
}

/// Return the nearest bfloat16, that with an even last bit of two. A float that was rounded before is made odd, so that
/// rounding it again gives what rounding once would have given.
Pattern bfloat16(double value) {
  auto single = static_cast<float>(value);
  if (std::isnan(value)) return pattern_from(std::uint16_t{0x7fc0});
  auto bits = std::bit_cast<std::uint32_t>(single);
  if (static_cast<double>(single) != value) {
    if (std::fabs(static_cast<double>(single)) > std::fabs(value)) --bits;
    bits |= 1;
  }
  bits += 0x7fff + ((bits >> 16) & 1);
  if (std::isfinite(value) && (bits & 0x7f800000U) == 0x7f800000U) does_not_fit("bfloat16");
  return pattern_from(static_cast<std::uint16_t>(bits >> 16));
}

bool has_numbers(DType type) {
  constexpr DType all[] = {i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64, bf16, c64, c128, bool8};
  return std::ranges::find(all, type) != std::end(all);
}

bool is_own_bytes(nb::handle value) {
  return PyBytes_Check(value.ptr()) != 0 || PyByteArray_Check(value.ptr()) != 0 || PyMemoryView_Check(value.ptr()) != 0;
}

/// Throw the exception of Python in flight, or that a number is too large.
[[noreturn]] void no_number(const std::string& into) {
  if (PyErr_ExceptionMatches(PyExc_OverflowError)) does_not_fit(into);
  throw nb::python_error();
}

bool is_real(nb::handle value) { return is_integer(value) || nb::hasattr(value, "__float__"); }

Pattern from_float(nb::handle value, DType type) {
  if (!is_real(value)) wrong_type(value, "value", ("a number for " + name_of(type)).c_str());
  const nb::object number = nb::steal(PyNumber_Float(value.ptr()));
  if (!number) no_number(name_of(type));
  if (type == bf16) return bfloat16(PyFloat_AsDouble(number.ptr()));
  return packed(type == f16 ? "=e" : type == f32 ? "=f" : "=d", number, name_of(type));
}

/// Return the bytes of both parts.
std::vector<std::byte> from_complex(nb::handle value, DType type) {
  const std::string name = name_of(type);
  if (!is_real(value) && !nb::hasattr(value, "__complex__"))
    wrong_type(value, "value", ("a number for " + name).c_str());
  const nb::object number =
      nb::steal(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyComplex_Type), value.ptr(), nullptr));
  if (!number) no_number(name);
  std::vector<std::byte> bytes;
  for (const char* part : {"real", "imag"}) {
    const Pattern half = packed(type == c64 ? "=f" : "=d", number.attr(part), name);
    append(bytes, half);
  }
  return bytes;
}

/// Return whether `value` is a scalar of NumPy or of a library that extends it; an array of one element without
/// dimensions counts as one.
bool is_typed_scalar(nb::handle value) {
  if (!nb::hasattr(value, "dtype") || !nb::hasattr(value, "tobytes")) return false;
  return !nb::hasattr(value, "ndim") || integer(value.attr("ndim"), "ndim") == 0;
}

/// Return the bytes of a scalar of this very type.
std::vector<std::byte> from_scalar(nb::handle value, DType type) {
  if (!is_typed_scalar(value) || known_dtype(value.attr("dtype")) != type)
    wrong_type(value, "value", ("the bytes of one element of " + name_of(type) + ", or a scalar of that type").c_str());
  const nb::object bytes = value.attr("tobytes")();
  const HostBytes given = readable(bytes);
  return {given.bytes.begin(), given.bytes.end()};
}

Pattern from_bool(nb::handle value) {
  const bool truth =
      PyBool_Check(value.ptr()) != 0 || (is_typed_scalar(value) && dtype_of(value.attr("dtype")) == bool8);
  if (truth) return {PyObject_IsTrue(value.ptr()) == 1 ? 1U : 0U, 1};
  if (!is_integer(value)) wrong_type(value, "value", "a bool");
  const Pattern number = from_int(value, 8, Sign::any, "bool");
  if (number.value > 1) does_not_fit("bool");
  return {number.value, 1};
}

/// Return one element of `type`. A float is no integer, even where it has no fraction.
Pattern element(nb::handle value, DType type) {
  const std::string name = name_of(type);
  if (!can_repeat(type.bytes()))
    throw nb::value_error(
        (name + " has " + std::to_string(type.bytes()) + " bytes; a fill repeats 1, 2, 4 or 8 of them").c_str());
  if (type == bool8) return from_bool(value);
  if (type == c64) return from_bytes(from_complex(value, type), "value");
  if (type == f16 || type == f32 || type == f64 || type == bf16) return from_float(value, type);
  if (PyBool_Check(value.ptr()) == 0 && !is_integer(value))
    wrong_type(value, "value", ("an integer for " + name).c_str());
  const bool without = type == u8 || type == u16 || type == u32 || type == u64;
  return from_int(value, type.bytes(), without ? Sign::without : Sign::with, name);
}

std::size_t width_of(nb::handle width, std::size_t otherwise) {
  if (width.is_none()) return otherwise;
  const std::int64_t bytes = integer(width, "width");
  if (bytes < 0 || !can_repeat(static_cast<std::size_t>(bytes))) throw nb::value_error("width must be 1, 2, 4 or 8");
  return static_cast<std::size_t>(bytes);
}

Pattern with_width(Pattern pattern, nb::handle width) {
  if (width_of(width, pattern.bytes) != pattern.bytes)
    throw nb::value_error(("value has " + std::to_string(pattern.bytes) + " bytes, which is not its width").c_str());
  return pattern;
}

}  // namespace

Pattern pattern_of(nb::handle value, nb::handle width, nb::handle dtype) {
  if (!dtype.is_none()) {
    if (!width.is_none()) fail(PyExc_TypeError, "width and dtype both say how large the value is: give one of them");
    const DType type = dtype_of(dtype);
    return has_numbers(type) ? element(value, type) : from_bytes(element_of(value, type), "value");
  }
  if (is_own_bytes(value)) return with_width(from_bytes(readable(value).bytes, "value"), width);
  const bool typed = is_typed_scalar(value);
  if (typed && (width.is_none() || (PyFloat_Check(value.ptr()) == 0 && !is_integer(value)))) {
    const nb::object bytes = value.attr("tobytes")();
    return with_width(from_bytes(readable(bytes).bytes, "value"), width);
  }
  if (PyBool_Check(value.ptr()) != 0 || is_integer(value)) {
    const std::size_t bytes = width_of(width, 1);
    return from_int(value, bytes, Sign::any, std::to_string(bytes) + " bytes");
  }
  if (PyFloat_Check(value.ptr()) == 0) wrong_type(value, "value", taken);
  const std::size_t bytes = width_of(width, 8);
  if (bytes == 1) throw nb::value_error("a float has 2, 4 or 8 bytes, not 1");
  return from_float(value, bytes == 2 ? f16 : bytes == 4 ? f32 : f64);
}

std::vector<std::byte> element_of(nb::handle value, DType type) {
  if (is_own_bytes(value)) {
    const HostBytes given = readable(value);
    if (given.bytes.size() == type.bytes()) return {given.bytes.begin(), given.bytes.end()};
    throw nb::value_error(("value has " + std::to_string(given.bytes.size()) + " bytes; an element of " +
                           name_of(type) + " has " + std::to_string(type.bytes()))
                              .c_str());
  }
  if (!has_numbers(type)) return from_scalar(value, type);
  if (type == c128) return from_complex(value, type);
  std::vector<std::byte> bytes;
  append(bytes, element(value, type));
  return bytes;
}

}  // namespace weir::python
