// SPDX-License-Identifier: Apache-2.0
#include "arrays.hpp"

#include "dtype.hpp"
#include "integers.hpp"

namespace weir::python {
namespace {

/// Return NumPy's dtype for a type that NumPy itself does not have. Throws TypeError.
nb::object extended_dtype(DType type) {
  const std::string name = name_of(type);
  PyObject* const found = PyImport_ImportModule("ml_dtypes");
  if (!found && !PyErr_ExceptionMatches(PyExc_ImportError)) throw nb::python_error();
  PyErr_Clear();
  const nb::object ml_dtypes = found ? nb::steal(found) : nb::none();
  if (!nb::hasattr(ml_dtypes, name.c_str()))
    fail(PyExc_TypeError, "NumPy has no " + name + (found ? "" : " without the package ml_dtypes") +
                              ": view the buffer as integers of the same size");
  return ml_dtypes.attr(name.c_str());
}

/// Return the array of NumPy. The buffer protocol waits for the memory's uses, and keeps the memory.
nb::object array_over(nb::handle object) {
  const nb::object view = nb::steal(PyMemoryView_FromObject(object.ptr()));
  if (!view) throw nb::python_error();
  return nb::module_::import_("numpy").attr("asarray")(view);
}

/// Return the type of integers that take as much room as a type that ml_dtypes adds.
DType integer_of(std::size_t bytes) {
  if (bytes == u8.bytes()) return u8;
  if (bytes == u16.bytes()) return u16;
  return u32;  // complex32 is the largest
}

nb::object readable_array(const Tensor& tensor) {
  const Layout& layout = tensor.layout();
  if (has_buffer_format(layout.dtype)) return array_over(nb::cast(tensor.share()));
  const nb::object dtype = extended_dtype(layout.dtype);
  Layout plain = layout;
  plain.dtype = integer_of(layout.dtype.bytes());
  return array_over(nb::cast(Tensor(tensor.buffer().share(), plain))).attr("view")(dtype);
}

}  // namespace

Tensor as_bytes(const Buffer& buffer, const char* operation) {
  if (buffer.is_closed()) throw Error(Errc::closed, std::string(operation) + ": the buffer is closed");
  return buffer.view(u8, {static_cast<std::int64_t>(buffer.size())});
}

nb::object array_of(const Tensor& tensor, nb::handle dtype, nb::handle copy) {
  const Buffer& buffer = tensor.buffer();
  if (buffer.is_closed()) throw Error(Errc::closed, "__array__: the buffer is closed");
  if (!buffer.is_host_accessible())
    fail(PyExc_TypeError, "NumPy cannot reach " + std::string(to_string(buffer.kind())) + " memory of " +
                              buffer.device().id() + ": numpy.from_dlpack(x, device=\"cpu\") copies it to the host");
  const nb::object array = readable_array(tensor);
  if (dtype.is_none() && copy.ptr() != Py_True) return array;
  return nb::module_::import_("numpy").attr("array")(array, nb::arg("dtype") = dtype, nb::arg("copy") = copy);
}

nb::object jax_array(const Tensor& tensor) {
  const Buffer& buffer = tensor.buffer();
  if (buffer.is_closed()) throw Error(Errc::closed, "__jax_array__: the buffer is closed");
  const bool refused = buffer.is_read_only() || !tensor.layout().is_compact();
  if (refused && buffer.is_host_accessible())
    return nb::module_::import_("jax.numpy").attr("asarray")(readable_array(tensor));
  return nb::module_::import_("jax.dlpack").attr("from_dlpack")(tensor.share());
}

}  // namespace weir::python
