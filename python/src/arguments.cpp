// SPDX-License-Identifier: Apache-2.0

#include "arguments.hpp"

#include "integers.hpp"
#include "texts.hpp"

namespace weir::python {
namespace {

/// Names in a program are interned, so that their addresses say nearly always which they are.
std::size_t index_of(PyObject* name, std::initializer_list<Name> parameters) {
  std::size_t i = 0;
  for (const Name parameter : parameters) {
    if (name == interned(parameter)) return i;
    ++i;
  }
  i = 0;
  for (const Name parameter : parameters) {
    if (PyUnicode_Compare(name, interned(parameter)) == 0) return i;
    ++i;
  }
  return i;
}

}  // namespace

void take(const Call& call, std::span<PyObject*> out, std::initializer_list<Name> parameters,
          std::size_t most_positional) {
  if (call.positional > most_positional)
    fail(PyExc_TypeError, std::string(call.function) + "() takes at most " + std::to_string(most_positional) +
                              " positional arguments, and " + std::to_string(call.positional) + " were given");
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = i < call.positional ? call.values[i] : nullptr;
  const std::size_t named = call.names ? static_cast<std::size_t>(PyTuple_Size(call.names)) : 0;
  for (std::size_t i = 0; i < named; ++i) {
    PyObject* const name = PyTuple_GetItem(call.names, static_cast<Py_ssize_t>(i));
    const std::size_t at = index_of(name, parameters);
    if (at == out.size())
      fail(PyExc_TypeError, std::string(call.function) + "() got an unexpected keyword argument '" + shown(name) + "'");
    if (out[at])
      fail(PyExc_TypeError, std::string(call.function) + "() got multiple values for argument '" + shown(name) + "'");
    out[at] = call.values[call.positional + i];
  }
}

void missing(const Call& call, Name parameter) {
  fail(PyExc_TypeError, std::string(call.function) + "() needs the argument '" + shown(interned(parameter)) + "'");
}

void wrong_class(nb::handle object, const char* what, nb::handle type) {
  wrong_type(object, what, ("a weir." + nb::cast<std::string>(type.attr("__name__"))).c_str());
}

}  // namespace weir::python
