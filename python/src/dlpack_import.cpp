// SPDX-License-Identifier: Apache-2.0
// from_dlpack: ask the producer, take its capsule, give the struct to weir, which validates it.

#include <dlpack/dlpack.h>

#include "cuda_stream.hpp"
#include "dlpack.hpp"
#include "ordering.hpp"

namespace weir::python {
namespace {

bool is_cuda(int type) { return type == kDLCUDA || type == kDLCUDAManaged; }

Stream stream_for(nb::handle stream, DlpackDevice device) {
  if (!stream.is_none()) return nb::cast<Stream>(stream);
  if (device.type == kDLCUDA) return cuda_stream(weir::device("cuda:" + std::to_string(device.id)), cuda_legacy_stream);
  if (device.type == kDLCUDAManaged) return cuda_stream(weir::device("cuda"), cuda_legacy_stream);
  return Stream{host_device()};
}

/// The consumer's stream, and what the producer is told as `stream`: a handle for CUDA memory, otherwise nothing. If
/// the consumer's stream is not one of CUDA, the producer orders CUDA memory before the legacy default stream, and the
/// consumer's stream waits for that.
struct Consumer {
  Stream stream;
  std::optional<Stream> producer_side;
  std::optional<std::uintptr_t> handle;
};

Consumer consumer_for(nb::handle stream, DlpackDevice device) {
  Consumer consumer{stream_for(stream, device), {}, {}};
  if (!is_cuda(device.type)) return consumer;
  consumer.handle = cuda_stream_handle(consumer.stream);
  if (!consumer.handle) {
    consumer.producer_side = stream_for(nb::none(), device);
    consumer.handle = cuda_legacy_stream;
  } else if (*consumer.handle == 0) {
    consumer.handle = cuda_legacy_stream;
  }
  return consumer;
}

/// Ask any producer for a capsule. Newer producers know max_version; older ones refuse the keyword, and are asked again
/// without it.
nb::object capsule_from(nb::handle object, const Consumer& consumer) {
  nb::dict arguments;
  if (consumer.handle) arguments["stream"] = nb::int_(*consumer.handle);
  arguments["max_version"] = nb::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  try {
    return object.attr("__dlpack__")(**arguments);
  } catch (nb::python_error& e) {
    if (!e.matches(PyExc_TypeError)) throw;
  }
  PyDict_DelItemString(arguments.ptr(), "max_version");
  return object.attr("__dlpack__")(**arguments);
}

template <class Managed>
Managed* take(nb::handle capsule, const char* name, const char* used) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), name));
  if (!managed || PyCapsule_SetName(capsule.ptr(), used) != 0) throw nb::python_error();
  return managed;
}

Tensor adopt(nb::handle capsule, const Stream& stream) {
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    auto* managed = take<DLManagedTensorVersioned>(capsule, "dltensor_versioned", "used_dltensor_versioned");
    return weir::from_dlpack(managed, stream);
  }
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor"))
    return weir::from_dlpack(take<DLManagedTensor>(capsule, "dltensor", "used_dltensor"), stream);
  const char* name = PyCapsule_CheckExact(capsule.ptr()) ? PyCapsule_GetName(capsule.ptr()) : nullptr;
  PyErr_Clear();
  if (name && std::string_view{name}.starts_with("used_dltensor"))
    throw nb::value_error("this DLPack capsule was consumed already");
  throw nb::type_error("__dlpack__() did not return a DLPack capsule");
}

DlpackDevice device_of(nb::handle object) {
  const nb::object device = object.attr("__dlpack_device__")();
  return {nb::cast<int>(nb::int_(device[0])), nb::cast<int>(nb::int_(device[1]))};
}

}  // namespace

Tensor from_dlpack(nb::handle object, nb::handle stream) {
  if (PyCapsule_CheckExact(object.ptr())) return adopt(object, stream_for(stream, {kDLCPU, 0}));
  if (!nb::hasattr(object, "__dlpack__") || !nb::hasattr(object, "__dlpack_device__"))
    throw nb::type_error((std::string{"from_dlpack needs an object with __dlpack__ and __dlpack_device__, not "} +
                          nb::inst_name(object).c_str())
                             .c_str());
  const Consumer consumer = consumer_for(stream, device_of(object));
  const nb::object capsule = capsule_from(object, consumer);
  if (consumer.producer_side) consumer.stream.wait(consumer.producer_side->record());
  return adopt(capsule, consumer.stream);
}

}  // namespace weir::python
