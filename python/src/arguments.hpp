// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments of functions that are called so often that nanobind's own handling is most of their cost. They are slots of
// a type or plain functions of the module, with the calling convention METH_FASTCALL | METH_KEYWORDS.

#include <cstddef>
#include <initializer_list>
#include <span>

#include "bind.hpp"
#include "dlpack_names.hpp"

namespace weir::python {

/// One call: `positional` values, then those of the keywords in `names`, which may be null.
struct Call {
  const char* function;
  PyObject* const* values;
  std::size_t positional;
  PyObject* names;
};

/// Put the values of the parameters into `out`, null for those that are not given. The first `most_positional` ones may
/// be given by position. Throws TypeError for any other argument, and for one that is given twice.
void take(const Call& call, std::span<PyObject*> out, std::initializer_list<Name> parameters,
          std::size_t most_positional);
/// Throw TypeError because an argument is missing.
[[noreturn]] void missing(const Call& call, Name parameter);

/// Throw TypeError "<what> must be a weir.<type>, not <class of object>".
[[noreturn]] void wrong_class(nb::handle object, const char* what, nb::handle type);

/// Return the value behind an object of exactly this class or of one that is made from it. Throws TypeError for others.
template <class T>
T& instance(PyObject* object, const char* what) {
  static const nb::handle type = nb::type<T>();
  if (Py_TYPE(object) != reinterpret_cast<PyTypeObject*>(type.ptr()) && !nb::isinstance<T>(object))
    wrong_class(object, what, type);
  if (!nb::inst_ready(object)) wrong_class(object, what, type);
  return *nb::inst_ptr<T>(object);
}

/// Return a new object of Python for a value.
template <class T>
nb::object new_object(T&& value) {
  static const nb::handle type = nb::type<T>();
  nb::object object = nb::inst_alloc(type);
  new (nb::inst_ptr<T>(object)) T(std::move(value));
  nb::inst_mark_ready(object);
  return object;
}

/// As PyMethodDef has it.
using FastCall = PyObject* (*)(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names);
inline PyCFunction as_function(FastCall function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace weir::python
