// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments that are numbers: sizes, offsets, addresses, indices and seconds. Every refusal names the argument, what
// was given, and what is taken.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "bind.hpp"

namespace weir::python {

inline bool any_object(PyObject*) { return true; }

/// An argument that is to be an integer. It takes any object, because only the functions below can say in an error
/// which argument was wrong.
class Int : public nb::object {
  NB_OBJECT_DEFAULT(Int, nb::object, "int", any_object)
};

/// Return whether `object` is an int or stands for one (`__index__`), as numpy.int64 does. A bool is no number.
bool is_integer(nb::handle object);

/// Return the value of such an object. Throws TypeError for other objects, OverflowError for more than 64 bits.
std::int64_t integer(nb::handle object, const char* what);
/// The same for something that is counted. Throws ValueError "<what> must not be negative" for less than 0.
std::size_t count(nb::handle object, const char* what);
/// The same for an address or another number without a sign.
std::uint64_t address(nb::handle object, const char* what);
/// Return a duration from seconds. Throws ValueError for less than 0 and for what is no number. A duration of more than
/// 30 years becomes that long.
std::chrono::nanoseconds duration(double seconds, const char* what);

/// Throw an exception of Python's class `type`.
[[noreturn]] void fail(PyObject* type, const std::string& message);
/// Throw TypeError "<what> must be <wanted>, not <class of object>".
[[noreturn]] void wrong_type(nb::handle object, const char* what, const char* wanted);

}  // namespace weir::python
