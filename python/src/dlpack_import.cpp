// SPDX-License-Identifier: Apache-2.0
// from_dlpack: ask the producer, take its capsule, give the struct to weir, which validates it.

#include <dlpack/dlpack.h>

#include <array>
#include <exception>
#include <memory>
#include <utility>

#include "cuda_stream.hpp"
#include "dlpack.hpp"
#include "dlpack_names.hpp"
#include "exchange_import.hpp"
#include "integers.hpp"
#include "ordering.hpp"
#include "owners.hpp"
#include "weir/interop/python.hpp"
#include "weir/spi/dlpack.hpp"

namespace weir::python {
namespace {

bool is_cuda_memory(int type) { return type == kDLCUDA || type == kDLCUDAManaged; }

Stream stream_for(nb::handle stream, DlpackDevice device) {
  if (!stream.is_none()) return nb::cast<Stream>(stream);
  if (device.type == kDLCUDA) return cuda_legacy(device.id);
  if (device.type == kDLCUDAManaged) return cuda_legacy(0);
  return host_stream();
}

/// Call a method of `object`, with values for the keywords of the tuple `names`.
nb::object call(nb::handle object, Name method, std::array<PyObject*, 2> values = {}, nb::handle names = {}) {
  const std::array arguments{object.ptr(), values[0], values[1]};
  PyObject* result = nullptr;
  try {
    result = PyObject_VectorcallMethod(interned(method), arguments.data(), 1, names.ptr());
  } catch (...) {  // the interpreter has ended, and ends this thread
    wait_for_the_end_of_the_process();
  }
  if (!result) throw nb::python_error();
  return nb::steal(result);
}

/// Return the names as a tuple that lives as long as the process.
template <class... Names>
nb::handle keywords(Names... names) {
  PyObject* const tuple = PyTuple_Pack(sizeof...(names), interned(names)...);
  if (!tuple) throw nb::python_error();
  return tuple;
}

/// Ask any producer for a capsule. Newer producers know max_version; older ones refuse the keyword, and are asked again
/// without it.
nb::object capsule_from(nb::handle object, std::optional<std::uintptr_t> stream) {
  static const nb::handle version_only = keywords(Name::max_version), stream_only = keywords(Name::stream);
  static const nb::handle both = keywords(Name::max_version, Name::stream);
  static const nb::handle version = nb::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION).release();
  const nb::object handle = stream ? nb::object(nb::int_(*stream)) : nb::object();
  try {
    return call(object, Name::dlpack, {version.ptr(), handle.ptr()}, stream ? both : version_only);
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
  }
  return call(object, Name::dlpack, {handle.ptr()}, stream ? stream_only : nb::handle());
}

/// Give a producer's tensor back with the GIL, because its deleter may want it. A deleter that waits for the GIL when
/// the interpreter has ended would end its thread.
template <class Managed>
void give_back(void* managed) {
  auto* const tensor = static_cast<Managed*>(managed);
  try {
    if (tensor->deleter) tensor->deleter(tensor);
  } catch (const std::exception& thrown) {
    report({{}, "the deleter of a DLPack tensor", thrown.what()});
  }
}

template <class Managed>
Tensor import(Managed* managed, std::uint64_t flags, const Stream& stream) {
  const DLTensor& from = managed->dl_tensor;
  const spi::ImportedTensor tensor{
      .device = {static_cast<std::int32_t>(from.device.device_type), from.device.device_id},
      .dtype = {from.dtype.code, from.dtype.bits, from.dtype.lanes},
      .dimensions = from.ndim,
      .shape = from.shape,
      .strides = from.strides,
      .data = reinterpret_cast<std::uintptr_t>(from.data),
      .byte_offset = from.byte_offset,
      .padded = (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0};
  struct Unless {
    Managed* managed;
    bool releases = false;
    ~Unless() {
      if (!releases) give_back<Managed>(managed);
    }
  } taken{managed};
  const auto release = [managed] { call_with_gil(&give_back<Managed>, managed); };
  const bool read_only = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  return spi::import_tensor(tensor, read_only, release, stream, taken.releases);
}

Tensor adopt(nb::handle capsule, const Stream& stream) {
  const TakenTensor taken = consume_capsule(capsule.ptr());
  if (taken.versioned) return take_over(taken.versioned, stream);
  // What cannot say that it is read-only may be so: JAX gives its immutable arrays like that.
  if (taken.legacy) return import(taken.legacy, DLPACK_FLAG_BITMASK_READ_ONLY, stream);
  throw nb::python_error();
}

DlpackDevice device_of(nb::handle object) {
  try {
    const nb::object device = call(object, Name::dlpack_device);
    const auto type = integer(device[0], "the type that __dlpack_device__ gives");
    const auto id = integer(device[1], "the number that __dlpack_device__ gives");
    if (!std::in_range<std::int32_t>(type) || !std::in_range<std::int32_t>(id))
      throw nb::value_error(("__dlpack_device__ gives a device that there cannot be: (" + std::to_string(type) + ", " +
                             std::to_string(id) + ")")
                                .c_str());
    return {static_cast<std::int32_t>(type), static_cast<std::int32_t>(id)};
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_AttributeError) || nb::hasattr(object, "__dlpack_device__")) throw;
  }
  throw nb::type_error((std::string{"from_dlpack needs an object with __dlpack__ and __dlpack_device__, not "} +
                        nb::inst_name(object).c_str())
                           .c_str());
}

/// Return whether `object` is an array of NumPy, which is in memory of the host without asking.
bool is_array_of_numpy(nb::handle object) {
  static PyTypeObject* known = nullptr;  // kept for ever; guarded by the GIL
  if (!known) {
    PyObject* const numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
    PyObject* const type = numpy ? PyObject_GetAttrString(numpy, "ndarray") : nullptr;
    if (!type) PyErr_Clear();
    known = reinterpret_cast<PyTypeObject*>(type);
  }
  return known && Py_TYPE(object.ptr()) == known;
}

}  // namespace

Consumer consumer_for(nb::handle stream, DlpackDevice device) {
  Consumer consumer{stream_for(stream, device), {}, {}};
  if (!is_cuda_memory(device.type)) return consumer;
  consumer.handle = cuda_stream_handle(consumer.stream);
  // The producer knows streams of its own device only.
  const bool elsewhere = device.type == kDLCUDA && consumer.stream.device().ordinal() != device.id;
  if (!consumer.handle || elsewhere) {
    consumer.producer_side = stream_for(nb::none(), device);
    consumer.handle = cuda_legacy_stream;
  } else if (*consumer.handle == 0) {
    consumer.handle = cuda_legacy_stream;
  }
  return consumer;
}

void return_to_producer(DLManagedTensorVersioned* managed) { give_back<DLManagedTensorVersioned>(managed); }

Tensor take_over(DLManagedTensorVersioned* managed, const Stream& stream) {
  if (managed->version.major != DLPACK_MAJOR_VERSION) return weir::from_dlpack(managed, stream);  // refuses it
  return import(managed, managed->flags, stream);
}

Tensor from_dlpack(nb::handle object, nb::handle stream) {
  if (PyCapsule_CheckExact(object.ptr())) return adopt(object, stream_for(stream, {kDLCPU, 0}));
  const bool on_host = is_array_of_numpy(object);
  if (!on_host)
    if (auto tensor = exchange(object, stream)) return std::move(*tensor);
  const Consumer consumer = consumer_for(stream, on_host ? DlpackDevice{kDLCPU, 0} : device_of(object));
  const nb::object capsule = capsule_from(object, consumer.handle);
  if (consumer.producer_side) without_gil([&] { consumer.stream.wait(consumer.producer_side->record()); });
  return adopt(capsule, consumer.stream);
}

}  // namespace weir::python
