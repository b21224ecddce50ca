// SPDX-License-Identifier: Apache-2.0

#include "integers.hpp"

#include <algorithm>
#include <cmath>

namespace weir::python {
namespace {

/// Return the int that `object` stands for.
nb::object number_of(nb::handle object, const char* what) {
  if (!is_integer(object)) wrong_type(object, what, "an integer");
  nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number) {  // NumPy's arrays have __index__, too, but most of them stand for no integer
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
    PyErr_Clear();
    wrong_type(object, what, "an integer");
  }
  return number;
}

[[noreturn]] void too_large(const char* what) {
  PyErr_Clear();
  fail(PyExc_OverflowError, std::string(what) + " does not fit into 64 bits");
}

}  // namespace

void fail(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  throw nb::python_error();
}

void wrong_type(nb::handle object, const char* what, const char* wanted) {
  fail(PyExc_TypeError, std::string(what) + " must be " + wanted + ", not " + nb::type_name(object.type()).c_str());
}

bool is_integer(nb::handle object) { return PyIndex_Check(object.ptr()) != 0 && !PyBool_Check(object.ptr()); }

std::int64_t integer(nb::handle object, const char* what) {
  const nb::object number = number_of(object, what);
  const long long value = PyLong_AsLongLong(number.ptr());
  if (value == -1 && PyErr_Occurred()) too_large(what);
  return value;
}

std::size_t count(nb::handle object, const char* what) {
  const std::int64_t value = integer(object, what);
  if (value < 0) throw nb::value_error((std::string{what} + " must not be negative: " + std::to_string(value)).c_str());
  return static_cast<std::size_t>(value);
}

std::uint64_t address(nb::handle object, const char* what) {
  const nb::object number = number_of(object, what);
  const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
  if (value == ~0ULL && PyErr_Occurred()) {
    PyErr_Clear();
    fail(PyExc_OverflowError, std::string(what) + " must be at least 0 and fit into 64 bits");
  }
  return value;
}

std::chrono::nanoseconds duration(double seconds, const char* what) {
  if (std::isnan(seconds) || seconds < 0)
    throw nb::value_error((std::string(what) + " must be a number of seconds >= 0").c_str());
  constexpr double longest = 1e9;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>{std::min(seconds, longest)});
}

}  // namespace weir::python
