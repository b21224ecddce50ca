// SPDX-License-Identifier: Apache-2.0
// __dlpack__ and __dlpack_device__, as plain C methods.

#include <dlpack/dlpack.h>

#include <string_view>

#include "cuda_stream.hpp"
#include "dlpack.hpp"
#include "guarded.hpp"
#include "ordering.hpp"

namespace weir::python {
namespace {

constexpr DlpackDevice cpu{kDLCPU, 0};

enum class Copy { if_needed, always, never };

struct Arguments {
  std::optional<std::int64_t> stream;  // empty: None
  std::optional<DlpackDevice> device;
  bool versioned = false;
  Copy copy = Copy::if_needed;
};

std::int64_t integer(nb::handle value, const char* what) {
  if (PyBool_Check(value.ptr()) || !PyIndex_Check(value.ptr()))
    throw nb::type_error((std::string{what} + " must be an int, not " + nb::inst_name(value).c_str()).c_str());
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  const long long number = index ? PyLong_AsLongLong(index.ptr()) : -1;
  if (PyErr_Occurred()) throw nb::python_error();
  return number;
}

std::pair<std::int64_t, std::int64_t> integers(nb::handle value, const char* what) {
  if (!PyTuple_Check(value.ptr()) || PyTuple_Size(value.ptr()) != 2)
    throw nb::type_error((std::string{what} + " must be a tuple of two ints").c_str());
  return {integer(value[0], what), integer(value[1], what)};
}

void parse(Arguments& arguments, std::string_view name, nb::handle value) {
  if (name == "copy") {
    if (value.is_none()) return;
    if (!PyBool_Check(value.ptr())) throw nb::type_error("copy must be None, True or False");
    arguments.copy = value.ptr() == Py_True ? Copy::always : Copy::never;
  } else if (name == "stream") {
    if (!value.is_none()) arguments.stream = integer(value, "stream");
  } else if (name == "max_version") {
    if (!value.is_none()) arguments.versioned = integers(value, "max_version").first >= 1;
  } else if (name == "dl_device") {
    if (value.is_none()) return;
    const auto [type, id] = integers(value, "dl_device");
    arguments.device = DlpackDevice{static_cast<std::int32_t>(type), static_cast<std::int32_t>(id)};
  } else {
    throw nb::type_error(("__dlpack__() got an unexpected keyword argument '" + std::string{name} + "'").c_str());
  }
}

Arguments parse(PyObject* const* values, Py_ssize_t positional, PyObject* names) {
  if (positional != 0) throw nb::type_error("__dlpack__() takes keyword arguments only");
  Arguments arguments;
  for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); ++i) {
    Py_ssize_t length = 0;
    const char* name = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), &length);
    if (!name) throw nb::python_error();
    parse(arguments, {name, static_cast<std::size_t>(length)}, values[i]);
  }
  return arguments;
}

std::string describe(DlpackDevice device) {
  return "(" + std::to_string(device.type) + ", " + std::to_string(device.id) + ")";
}

/// What must be done to show a buffer as memory of the device that was asked for.
struct Route {
  DlpackDevice device;
  bool relabel = false;
  bool copy = false;
};

Route route_to(const Buffer& buffer, const Arguments& arguments) {
  const DlpackDevice own = dlpack_device(buffer);
  Route route{arguments.device.value_or(own), false, arguments.copy == Copy::always};
  if (route.device == own) return route;
  const Device device = buffer.device();
  const bool same_gpu = device.backend() == "cuda" && route.device == DlpackDevice{kDLCUDA, device.ordinal()};
  if (route.device == cpu && buffer.is_host_accessible()) {
    route.relabel = true;
  } else if (same_gpu && buffer.is_device_accessible()) {
    route.relabel = true;
  } else if (route.device == cpu) {
    route.copy = true;
  } else {
    throw nb::buffer_error(
        ("memory of DLPack device " + describe(own) + " cannot be exported as dl_device " + describe(route.device))
            .c_str());
  }
  if (route.copy && arguments.copy == Copy::never)
    throw nb::buffer_error("memory that the host cannot reach needs a copy, and copy=False");
  return route;
}

/// Return the stream that the consumer works on. If there is none, the memory must be complete when the capsule is
/// returned.
std::optional<Stream> consumer_of(const Tensor& tensor, DlpackDevice label, const std::optional<std::int64_t>& stream) {
  const bool pinned_or_managed = label.type == kDLCUDAHost || label.type == kDLCUDAManaged;
  if (label.type != kDLCUDA && !(pinned_or_managed && stream && *stream != -1)) {
    if (stream && *stream != -1) throw nb::value_error("stream must be None or -1 for memory that is not CUDA's");
    return std::nullopt;
  }
  if (stream && (*stream == 0 || *stream < -1))
    throw nb::value_error("stream must be None, -1, 1, 2 or a CUDA stream handle; 0 is ambiguous");
  if (stream == -1) return allocation_stream(tensor.buffer());
  return cuda_stream(tensor.buffer().device(), static_cast<std::uintptr_t>(stream.value_or(cuda_legacy_stream)));
}

/// Copy the elements to memory of their own, on the host or in the resource of the original.
Tensor duplicate(const Tensor& tensor, bool to_host, const Stream& stream) {
  const Buffer& source = tensor.buffer();
  Layout layout = tensor.layout();
  bool forward = true;
  for (const std::int64_t stride : layout.strides) forward = forward && stride >= 0;
  const std::size_t first = forward && layout.elements() > 0 ? layout.byte_offset : 0;
  const std::size_t bytes = layout.bytes_needed() - first;
  layout.byte_offset -= first;
  const ResourcePtr resource = to_host ? make_resource(host_device(), MemoryKind::pageable) : source.memory_resource();
  Buffer copy = resource->allocate(bytes, stream);
  if (bytes > 0) {
    source.order_after_uses(stream);
    copy.copy_from(source, first, 0, bytes, stream);
  }
  return {std::move(copy), std::move(layout)};
}

template <class Managed>
void destroy_capsule(PyObject* capsule, const char* name) noexcept {
  if (!PyCapsule_IsValid(capsule, name)) return;  // a consumer has taken the tensor
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter) managed->deleter(managed);  // touches no Python object, so an exception in flight survives
}

nb::object capsule_of(ManagedTensor managed, bool versioned) {
  PyObject* capsule = nullptr;
  if (versioned) {
    capsule = PyCapsule_New(managed.get(), "dltensor_versioned", [](PyObject* dying) {
      destroy_capsule<DLManagedTensorVersioned>(dying, "dltensor_versioned");
    });
    if (!capsule) throw nb::python_error();
    static_cast<void>(managed.release());
    return nb::steal(capsule);
  }
  if (managed.get()->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
    throw nb::buffer_error("read-only memory needs a consumer that speaks DLPack 1.0: max_version=(1, 0) or later");
  DLManagedTensor* legacy = managed.release_legacy();
  capsule =
      PyCapsule_New(legacy, "dltensor", [](PyObject* dying) { destroy_capsule<DLManagedTensor>(dying, "dltensor"); });
  if (!capsule) {
    if (legacy->deleter) legacy->deleter(legacy);
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

void relabel(DLTensor& out, const Tensor& tensor, DlpackDevice device) {
  out.device = {static_cast<DLDeviceType>(device.type), device.id};
  if (!out.data) return;
  const Buffer& buffer = tensor.buffer();
  void* base = device == cpu ? static_cast<void*>(buffer.host_data())
                             : reinterpret_cast<void*>(static_cast<std::uintptr_t>(buffer.device_address()));
  out.data = static_cast<std::byte*>(base) + tensor.layout().byte_offset;
  out.byte_offset = 0;
}

nb::object export_tensor(const Tensor& tensor, const Arguments& arguments) {
  const Route route = route_to(tensor.buffer(), arguments);
  const std::optional<Stream> consumer = consumer_of(tensor, route.device, arguments.stream);
  const bool to_host = route.copy && route.device == cpu;
  std::optional<Tensor> copy;
  if (route.copy) {
    const Stream copier = consumer ? *consumer : allocation_stream(tensor.buffer());
    copy.emplace(without_gil([&] { return duplicate(tensor, to_host, copier); }));
  }
  const Tensor& shown = copy ? *copy : tensor;
  if (!consumer) complete_on_host(shown.buffer());
  ManagedTensor managed =
      shown.to_dlpack(consumer ? *consumer : host_reader(), {.read_only = !copy && tensor.buffer().is_read_only()});
  if (copy) managed.get()->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  if (route.relabel && !to_host) relabel(managed.get()->dl_tensor, shown, route.device);
  return capsule_of(std::move(managed), arguments.versioned);
}

Tensor tensor_of(const Buffer& buffer) { return buffer.view(u8, {static_cast<std::int64_t>(buffer.size())}); }
const Tensor& tensor_of(const Tensor& tensor) { return tensor; }  // the caller keeps it, and changes no tensor
const Buffer& buffer_of(const Buffer& buffer) { return buffer; }
const Buffer& buffer_of(const Tensor& tensor) { return tensor.buffer(); }

template <class T>
PyObject* dlpack(PyObject* self, PyObject* const* values, Py_ssize_t count, PyObject* names) noexcept {
  return guarded([&] { return export_tensor(tensor_of(*nb::inst_ptr<T>(self)), parse(values, count, names)); });
}

template <class T>
PyObject* dlpack_device_of(PyObject* self, PyObject*) noexcept {
  return guarded([&]() -> nb::object {
    const DlpackDevice device = dlpack_device(buffer_of(*nb::inst_ptr<T>(self)));
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

PyMethodDef* buffer_dlpack_methods() { return methods<Buffer>(); }
PyMethodDef* tensor_dlpack_methods() { return methods<Tensor>(); }

}  // namespace weir::python
