// SPDX-License-Identifier: Apache-2.0
// Tensor: a Buffer with element type and shape, for DLPack and the buffer protocol.

#include <nanobind/stl/vector.h>

#include "dlpack.hpp"
#include "dtype.hpp"
#include "host_bytes.hpp"

namespace weir::python {
namespace {

nb::tuple tuple_of(const std::vector<std::int64_t>& values) {
  nb::list list;
  for (const std::int64_t value : values) list.append(value);
  return nb::tuple(list);
}

PyType_Slot slots[] = {{Py_tp_methods, tensor_dlpack_methods()},
                       {Py_bf_getbuffer, reinterpret_cast<void*>(&get_tensor)},
                       {Py_bf_releasebuffer, reinterpret_cast<void*>(&release_buffer)},
                       {0, nullptr}};

}  // namespace

void bind_tensors(nb::module_& m) {
  nb::class_<Tensor>(m, "Tensor", nb::type_slots(slots), nb::is_weak_referenceable(),
                     "A Buffer seen as an array. Shares its ownership; what NumPy and others take by DLPack.")
      .def_prop_ro(
          "buffer", [](const Tensor& t) { return t.buffer().share(); }, "another owner of the same memory")
      .def_prop_ro(
          "dtype", [](const Tensor& t) { return name_of(t.layout().dtype); }, "for example 'float32'")
      .def_prop_ro("shape", [](const Tensor& t) { return tuple_of(t.layout().shape); })
      .def_prop_ro(
          "strides", [](const Tensor& t) { return tuple_of(t.layout().strides); }, "in elements")
      .def_prop_ro("byte_offset", [](const Tensor& t) { return t.layout().byte_offset; })
      .def_prop_ro(
          "size", [](const Tensor& t) { return t.layout().elements(); }, "elements")
      .def_prop_ro("itemsize", [](const Tensor& t) { return t.layout().dtype.bytes(); })
      .def_prop_ro("device", [](const Tensor& t) { return t.buffer().device(); })
      .def_prop_ro("is_contiguous", [](const Tensor& t) { return t.layout().is_compact(); })
      .def_prop_ro("is_read_only", [](const Tensor& t) { return t.buffer().is_read_only(); })
      .def("__repr__", [](const Tensor& t) {
        std::string text = "<weir.Tensor " + name_of(t.layout().dtype) + " (";
        for (const std::int64_t extent : t.layout().shape) text += std::to_string(extent) + ",";
        return text + ") on " + t.buffer().device().id() + ">";
      });
  m.def("from_dlpack", &from_dlpack, nb::arg("obj").none(), nb::kw_only(), nb::arg("stream").none() = nb::none(),
        nb::sig("def from_dlpack(obj: object, *, stream: Stream | None = None) -> Tensor"),
        "Take over a tensor of another framework without a copy. It may be used on `stream` at once; None is a new "
        "stream of the host, or CUDA's legacy default stream.");
}

}  // namespace weir::python
