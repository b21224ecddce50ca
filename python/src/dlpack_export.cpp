// SPDX-License-Identifier: Apache-2.0
// __dlpack__ and __dlpack_device__, as plain C methods.

#include <dlpack/dlpack.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "arguments.hpp"
#include "cuda_stream.hpp"
#include "dlpack.hpp"
#include "dlpack_names.hpp"
#include "guarded.hpp"
#include "integers.hpp"
#include "ordering.hpp"
#include "texts.hpp"
#include "weir/interop/python.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/dlpack.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::python {
namespace {

struct Arguments {
  std::optional<std::int64_t> stream;  // empty: None
  DlpackOptions options;
  bool versioned = false;
};

std::int64_t integer(nb::handle value, const char* what) {
  if (PyLong_CheckExact(value.ptr())) {
    const long long number = PyLong_AsLongLong(value.ptr());
    if (number == -1 && PyErr_Occurred()) throw nb::python_error();
    return number;
  }
  const nb::object index = nb::steal(PyBool_Check(value.ptr()) ? nullptr : PyNumber_Index(value.ptr()));
  if (!index) {
    PyErr_Clear();
    throw nb::type_error((std::string{what} + " must be an int, not " + nb::inst_name(value).c_str()).c_str());
  }
  const long long number = PyLong_AsLongLong(index.ptr());
  if (number == -1 && PyErr_Occurred()) throw nb::python_error();
  return number;
}

std::pair<std::int64_t, std::int64_t> integers(nb::handle value, const char* what) {
  if (!PyTuple_Check(value.ptr()) || PyTuple_Size(value.ptr()) != 2)
    throw nb::type_error((std::string{what} + " must be a tuple of two ints").c_str());
  return {integer(PyTuple_GetItem(value.ptr(), 0), what), integer(PyTuple_GetItem(value.ptr(), 1), what)};
}

/// Return whether a consumer knows DLPack 1.0. Each passes one tuple all the time, so the last one is remembered, and
/// kept so that no other object gets its address.
bool wants_versioned(nb::handle max_version) {
  static PyObject* last = nullptr;
  static bool answer = false;
  if (max_version.ptr() == last) return answer;
  answer = integers(max_version, "max_version").first >= 1;
  max_version.inc_ref();
  Py_XDECREF(std::exchange(last, max_version.ptr()));
  return answer;
}

void parse(Arguments& arguments, nb::handle name, nb::handle value) {
  const std::optional<Name> known = keyword(name);
  if (!known) throw nb::type_error(("__dlpack__() got an unexpected keyword argument '" + shown(name) + "'").c_str());
  if (value.is_none()) return;
  if (*known == Name::max_version) {
    arguments.versioned = wants_versioned(value);
  } else if (*known == Name::stream) {
    arguments.stream = integer(value, "stream");
  } else if (*known == Name::dl_device) {
    const auto [type, id] = integers(value, "dl_device");
    if (!std::in_range<std::int32_t>(type) || !std::in_range<std::int32_t>(id))
      fail(PyExc_BufferError,
           "dl_device: there is no device (" + std::to_string(type) + ", " + std::to_string(id) + ")");
    arguments.options.device = DlpackDevice{static_cast<std::int32_t>(type), static_cast<std::int32_t>(id)};
  } else {
    if (!PyBool_Check(value.ptr())) throw nb::type_error("copy must be None, True or False");
    arguments.options.copy = value.ptr() == Py_True ? DlpackCopy::always : DlpackCopy::never;
  }
}

Arguments parse(PyObject* const* values, Py_ssize_t positional, PyObject* names) {
  if (positional != 0) throw nb::type_error("__dlpack__() takes keyword arguments only");
  Arguments arguments;
  const Py_ssize_t count = names ? PyTuple_Size(names) : 0;
  for (Py_ssize_t i = 0; i < count; ++i) parse(arguments, PyTuple_GetItem(names, i), values[i]);
  return arguments;
}

bool takes_streams(std::int32_t type) { return type == kDLCUDA || type == kDLCUDAHost || type == kDLCUDAManaged; }

/// Return the stream that the consumer works on. If there is none, the memory must be complete when the capsule is
/// returned. A consumer that asks for memory of the CPU gets complete memory, whatever stream it names.
std::optional<Stream> consumer_of(const Buffer& buffer, DlpackDevice label, const std::optional<std::int64_t>& stream) {
  if (stream && *stream != -1) {
    if (!takes_streams(label.type) && !takes_streams(dlpack_device(buffer).type))
      throw nb::value_error("stream must be None or -1 for memory that is not CUDA's");
    if (*stream == 0 || *stream < -1)
      throw nb::value_error("stream must be None, -1, 1, 2 or a CUDA stream handle; 0 is ambiguous");
  }
  const bool on_host = label.type == kDLCUDAHost || label.type == kDLCUDAManaged;
  if (label.type != kDLCUDA && !(on_host && stream && *stream != -1)) return std::nullopt;
  if (stream == -1) return allocation_stream(buffer);
  return cuda_stream(cuda_device(buffer, label), static_cast<std::uintptr_t>(stream.value_or(cuda_legacy_stream)));
}

/// An object of Python as weir has it, without a copy of its shape.
///@{
const Buffer& buffer_of(const Buffer& buffer) { return buffer; }
const Buffer& buffer_of(const Tensor& tensor) { return tensor.buffer(); }
Tensor tensor_of(const Buffer& buffer) { return buffer.view(u8, {static_cast<std::int64_t>(buffer.size())}); }
Tensor tensor_of(const Tensor& tensor) { return tensor.share(); }

template <class F>
decltype(auto) with_elements(const Buffer& buffer, F&& f) {
  const std::array<std::int64_t, 1> shape{static_cast<std::int64_t>(buffer.size())}, strides{1};
  return f(spi::Elements{u8, shape, strides});
}
template <class F>
decltype(auto) with_elements(const Tensor& tensor, F&& f) {
  const Layout& layout = tensor.layout();
  return f(spi::Elements{layout.dtype, layout.shape, layout.strides, layout.byte_offset});
}
///@}

template <class T>
ManagedTensor export_as_it_is(const T& self, DlpackDevice device, std::uint64_t flags,
                              const std::optional<Stream>& consumer) {
  const Buffer& buffer = buffer_of(self);
  return with_elements(self, [&](const spi::Elements& elements) {
    if (consumer) return export_for(buffer, elements, device, flags, *consumer);
    complete_on_host(buffer, elements);
    return spi::export_elements(buffer, elements, device, flags, nullptr);
  });
}

ManagedTensor export_copy(const Tensor& tensor, const spi::DlpackRoute& route, const std::optional<Stream>& consumer) {
  const Stream stream = consumer ? *consumer : allocation_stream(tensor.buffer());
  const Tensor copy = without_gil([&] { return spi::dlpack_copy(tensor, route, stream); });
  return export_as_it_is(copy, route.device, DLPACK_FLAG_BITMASK_IS_COPIED, consumer);
}

template <class T>
nb::object export_object(const T& self, const Arguments& arguments) {
  const Buffer& buffer = buffer_of(self);
  const spi::DlpackRoute route = spi::dlpack_route(buffer, arguments.options);
  const std::optional<Stream> consumer = consumer_of(buffer, route.device, arguments.stream);
  ManagedTensor made =
      route.copies ? export_copy(tensor_of(self), route, consumer) : export_as_it_is(self, route.device, 0, consumer);
  PyObject* const capsule =
      make_capsule(std::move(made), arguments.versioned ? CapsuleKind::versioned : CapsuleKind::legacy);
  if (!capsule) throw nb::python_error();
  return nb::steal(capsule);
}

template <class T>
PyObject* dlpack(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) noexcept {
  return guarded([&] { return export_object(instance<T>(self, "self"), parse(values, count, names)); });
}

template <class T>
PyObject* dlpack_device_of(PyObject* self, PyObject*) noexcept {
  return guarded([&]() -> nb::object {
    const DlpackDevice device = dlpack_device(buffer_of(instance<T>(self, "self")));
    return nb::make_tuple(device.type, device.id);
  });
}

template <class T>
PyMethodDef* methods() {
  static PyMethodDef table[] = {
      {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&dlpack<T>)),
       METH_FASTCALL | METH_KEYWORDS,
       "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
       "DLPack capsule over the same memory. For CUDA, its work is ordered before the consumer's `stream`; memory\n"
       "that the host reads is complete on return."},
      {"__dlpack_device__", &dlpack_device_of<T>, METH_NOARGS,
       "__dlpack_device__($self, /)\n--\n\n(DLDeviceType, device id) of the memory."},
      {}};
  return table;
}

}  // namespace

// What other backends' streams have to do first is handed on without the GIL, because a queue's lock may be Python's.
// So it is when the consumer waits here until its driver has what the allocation stream holds back.
ManagedTensor export_for(const Buffer& buffer, const spi::Elements& elements, DlpackDevice device, std::uint64_t flags,
                         const Stream& consumer) {
  const spi::Block& block = *buffer.block();
  const bool one_backend = !block.stream || block.stream->device().backend == consumer.state().device().backend;
  const bool at_once = !block.stream || block.stream == &consumer.state() || has_nothing_held_back(*block.stream);
  if (one_backend && at_once && block.never_left_home())
    return spi::export_elements(buffer, elements, device, flags, &consumer);
  return without_gil(
      [&, kept = buffer.share()] { return spi::export_elements(kept, elements, device, flags, &consumer); });
}

PyMethodDef* buffer_dlpack_methods() { return methods<Buffer>(); }
PyMethodDef* tensor_dlpack_methods() { return methods<Tensor>(); }

}  // namespace weir::python
