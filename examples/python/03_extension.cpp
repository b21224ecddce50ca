// SPDX-License-Identifier: Apache-2.0
// An extension module of Python that takes a tensor of any framework and gives one of weir. 03_extension.py uses it.
// It needs nothing but Python's own C API; with nanobind or pybind11 the two calls of weir::python are the same.
#include <weir/interop/python.hpp>
#include <weir/weir.hpp>

namespace {

/// scaled(tensor, factor): a capsule with the product. Consumers in Python take it with their from_dlpack.
PyObject* scaled(PyObject*, PyObject* arguments) {
  PyObject* object = nullptr;
  double factor = 1;
  if (!PyArg_ParseTuple(arguments, "Od", &object, &factor)) return nullptr;
  try {
    const weir::Stream stream{weir::host_device()};
    const std::optional<weir::Tensor> source = weir::python::take_object(object, stream);
    if (!source) return nullptr;  // an exception of Python is set
    const std::span<const float> from = source->span<const float>();

    const weir::ResourcePtr memory = weir::current_resource(stream.device());
    weir::Tensor product = memory->allocate(from.size_bytes(), stream).view(weir::f32, source->layout().shape);
    stream.synchronize();  // the memory may have been another buffer's; its last use is over now
    const std::span<float> to = product.span<float>();
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(factor) * from[i];
    return weir::python::make_capsule(product.to_dlpack_after_wait());
  } catch (...) {
    weir::python::set_exception();
    return nullptr;
  }
}

PyMethodDef functions[] = {
    {"scaled", &scaled, METH_VARARGS, "scaled(tensor, factor): a DLPack capsule with the product."}, {}};
PyModuleDef definition{PyModuleDef_HEAD_INIT, "extension", nullptr, 0, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_extension() { return PyModule_Create(&definition); }
