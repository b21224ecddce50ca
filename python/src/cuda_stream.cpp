// SPDX-License-Identifier: Apache-2.0

#include "cuda_stream.hpp"

#if WEIR_HAS_CUDA
#include "weir/cuda.hpp"
#endif

namespace weir::python {

#if WEIR_HAS_CUDA

Stream cuda_stream(const Device& device, std::uintptr_t handle) {
  return cuda::borrow(device, reinterpret_cast<CUstream_st*>(handle));
}

std::optional<std::uintptr_t> cuda_stream_handle(const Stream& stream) {
  if (stream.device().backend() != "cuda") return std::nullopt;
  return reinterpret_cast<std::uintptr_t>(cuda::native(stream));
}

#else

Stream cuda_stream(const Device&, std::uintptr_t) {
  throw Error(Errc::unsupported, "this build of weir has no CUDA backend");
}

std::optional<std::uintptr_t> cuda_stream_handle(const Stream&) { return std::nullopt; }

#endif

std::uintptr_t cuda_handle_of(nb::handle stream) {
  nb::object number = nb::borrow(stream);
  if (nb::hasattr(stream, "__cuda_stream__")) {
    const nb::object protocol = stream.attr("__cuda_stream__");
    const nb::object answer = PyCallable_Check(protocol.ptr()) ? protocol() : protocol;
    if (nb::cast<int>(answer[0]) != 0) throw nb::value_error("unknown version of __cuda_stream__");
    number = answer[1];
  }
  if (PyBool_Check(number.ptr()) || !PyLong_Check(number.ptr()))
    throw nb::type_error("a CUDA stream is an int or an object with __cuda_stream__");
  return nb::cast<std::uintptr_t>(number);
}

}  // namespace weir::python
