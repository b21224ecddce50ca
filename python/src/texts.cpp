// SPDX-License-Identifier: Apache-2.0

#include "texts.hpp"

#include "integers.hpp"

namespace weir::python {

std::string string_of(nb::handle object, const char* what) {
  if (!nb::isinstance<nb::str>(object)) wrong_type(object, what, "a str");
  const nb::object bytes = nb::steal(PyUnicode_AsUTF8String(object.ptr()));
  if (bytes) return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
  if (!PyErr_ExceptionMatches(PyExc_UnicodeError)) throw nb::python_error();
  PyErr_Clear();
  throw nb::value_error((std::string(what) + " has characters that have no UTF-8: '" + shown(object) + "'").c_str());
}

std::string path_of(nb::handle path) {
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &encoded) == 0) {
    const bool has_no_bytes = PyErr_ExceptionMatches(PyExc_UnicodeError);
    if (!has_no_bytes && !PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
    PyErr_Clear();
    if (!has_no_bytes) wrong_type(path, "path", "a str or an os.PathLike");
    throw nb::value_error(("path has characters that no file name has: '" + shown(path) + "'").c_str());
  }
  return nb::steal<nb::bytes>(encoded).c_str();
}

nb::object path_text(const std::string& path) {
  PyObject* const text = PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
  if (!text) throw nb::python_error();
  return nb::steal(text);
}

std::string shown(nb::handle object) {
  const nb::object text = nb::steal(PyObject_Str(object.ptr()));
  if (!text) throw nb::python_error();
  const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  if (!bytes) throw nb::python_error();
  return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
}

}  // namespace weir::python
