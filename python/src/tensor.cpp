// SPDX-License-Identifier: Apache-2.0
// Tensor: a Buffer with element type and shape, for DLPack and the buffer protocol.

#include <nanobind/stl/vector.h>

#include <array>

#include "arguments.hpp"
#include "arrays.hpp"
#include "dlpack.hpp"
#include "dtype.hpp"
#include "extents.hpp"
#include "guarded.hpp"
#include "host_bytes.hpp"
#include "tensor_parts.hpp"

namespace weir::python {
namespace {

Tensor reshape(const Tensor& self, const nb::args& shape) {
  return self.reshape(extents(shape.size() == 1 ? nb::object(shape[0]) : nb::object(shape), "an extent"));
}

/// Permute the dimensions; without arguments, reverse them.
Tensor transpose(const Tensor& self, const nb::args& axes) {
  if (axes.size() == 0) return self.transpose();
  const auto ndim = static_cast<std::int64_t>(self.layout().shape.size());
  std::vector<std::size_t> dimensions;
  for (const auto axis : extents(axes.size() == 1 ? nb::object(axes[0]) : nb::object(axes), "an axis"))
    dimensions.push_back(static_cast<std::size_t>(axis < 0 ? axis + ndim : axis));
  return self.permute(dimensions);
}

std::int64_t length(const Tensor& self) {
  if (self.layout().shape.empty()) throw nb::type_error("a tensor of no dimensions has no len()");
  return self.layout().shape.front();
}

nb::object iterator(nb::handle self) {
  if (nb::cast<const Tensor&>(self).layout().shape.empty())
    throw nb::type_error("a tensor of no dimensions has no parts to iterate over");
  PyObject* const made = PySeqIter_New(self.ptr());
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

PyObject* take_from(PyObject*, PyObject* const* values, Py_ssize_t positional, PyObject* names) noexcept {
  return plainly([&] {
    const Call call{"from_dlpack", values, static_cast<std::size_t>(positional), names};
    std::array<PyObject*, 2> given;
    take(call, given, {Name::obj, Name::stream}, 1);
    const auto [object, stream] = given;
    if (!object) missing(call, Name::obj);
    if (stream && stream != Py_None) (void)instance<Stream>(stream, "stream");
    return new_object(from_dlpack(object, stream ? stream : Py_None));
  });
}

PyType_Slot tensor_slots[] = {{Py_tp_methods, tensor_dlpack_methods()},
                              {Py_bf_getbuffer, reinterpret_cast<void*>(&get_tensor)},
                              {Py_bf_releasebuffer, reinterpret_cast<void*>(&release_buffer)},
                              {0, nullptr}};

}  // namespace

void bind_tensors(nb::module_& m) {
  nb::class_<Tensor> tensor(m, "Tensor", nb::type_slots(tensor_slots), nb::is_weak_referenceable(),
                            "A Buffer seen as an array. Shares its ownership; what NumPy and others take by DLPack.");
  tensor
      .def_prop_ro(
          "buffer", [](const Tensor& t) { return t.buffer().share(); }, "another owner of the same memory")
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return name_of(t.layout().dtype); }, "for example 'float32'")
      .def_prop_ro("shape", [](const Tensor& t) { return tuple_of(t.layout().shape); })
      .def_prop_ro(
          "strides", [](const Tensor& t) { return tuple_of(t.layout().strides); }, "in elements")
      .def_prop_ro(
          "padded_shape",
          [](const Tensor& t) -> nb::object {
            const auto padded = t.layout().padded_shape();
            return padded ? nb::object(tuple_of(*padded)) : nb::none();
          },
          "the shape of the row-major array that this is a corner of, as the strides tell it; None for other layouts. "
          "Its first extent is that of `shape`")
      .def_prop_ro("byte_offset", [](const Tensor& t) { return t.layout().byte_offset; })
      .def_prop_ro(
          "size", [](const Tensor& t) { return t.layout().elements(); }, "elements")
      .def_prop_ro("itemsize", [](const Tensor& t) { return t.layout().dtype.bytes(); })
      .def_prop_ro("ndim", [](const Tensor& t) { return t.layout().shape.size(); })
      .def_prop_ro(
          "nbytes",
          [](const Tensor& t) { return static_cast<std::size_t>(t.layout().elements()) * t.layout().dtype.bytes(); },
          "of all elements, without gaps")
      .def_prop_ro("device", [](const Tensor& t) { return t.buffer().device(); })
      .def_prop_ro("is_contiguous", [](const Tensor& t) { return t.layout().is_compact(); })
      .def_prop_ro("is_read_only", [](const Tensor& t) { return t.buffer().is_read_only(); })
      .def(
          "__array__",
          [](const Tensor& self, nb::object dtype, nb::object copy) {
            raise_lost_interrupt(&self);
            return array_of(self, dtype, copy);
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
          "NumPy's array over memory that the host reaches, for numpy.asarray; other memory raises TypeError.")
      .def("__jax_array__", &jax_array, "JAX's array over the memory, for jax.numpy.asarray.")
      .def("__len__", &length)
      .def(
          "__bool__", [](const Tensor&) { return true; }, "True, also without elements: `if` tells a Tensor from None.")
      .def("__iter__", &iterator, nb::sig("def __iter__(self) -> Iterator[Tensor]"),
           "The parts along the first dimension, one after the other.")
      .def("__getitem__", &subscript, nb::arg("key").none(),
           "Part of the elements, in the same memory, by NumPy's basic indexing: integers, slices, '...' and None.")
      .def("reshape", &reshape, nb::arg("shape"),
           nb::sig("def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Tensor"),
           "The same elements with another shape, in the same memory; one extent may be -1. Raises Error where they "
           "would have to be copied.")
      .def("transpose", &transpose, nb::arg("axes"),
           nb::sig("def transpose(self, *axes: SupportsIndex | Sequence[SupportsIndex]) -> Tensor"),
           "The same elements with the dimensions in the order of `axes`, or reversed.")
      .def_prop_ro(
          "T", [](const Tensor& t) { return t.transpose(); }, "with the dimensions reversed")
      .def("__repr__", [](const Tensor& t) {
        std::string text = "<weir.Tensor " + name_of(t.layout().dtype) + " (";
        for (const std::int64_t extent : t.layout().shape) text += std::to_string(extent) + ",";
        return text + ") on " + t.buffer().device().id() + ">";
      });
  bind_tensor_copies(tensor);
  bind_tensor_fills(tensor);
  tensor.attr("__dlpack_c_exchange_api__") = exchange_api();
  static PyMethodDef function{
      "from_dlpack", as_function(&take_from), METH_FASTCALL | METH_KEYWORDS,
      "from_dlpack($module, /, obj, *, stream=None)\n--\n\n"
      "Take over a tensor of another framework without a copy. It may be used on `stream` at once; None is a stream of\n"
      "the host that the thread keeps, or CUDA's legacy default stream. Tensors of DLPack before 1.0 come in\n"
      "read-only, because they cannot say that they may be written."};
  PyObject* const made = PyCFunction_NewEx(&function, m.ptr(), m.attr("__name__").ptr());
  if (!made) throw nb::python_error();
  m.attr("from_dlpack") = nb::steal(made);
}

}  // namespace weir::python
