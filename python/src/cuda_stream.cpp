// SPDX-License-Identifier: Apache-2.0

#include "cuda_stream.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "integers.hpp"
#include "ordering.hpp"
#include "owners.hpp"

#if WEIR_HAS_CUDA
#include "weir/cuda.hpp"
#endif

namespace weir::python {

Device cuda_device(const Buffer& buffer, DlpackDevice label) {
  const Device own = buffer.device();
  return own.backend() == "cuda" ? own : weir::device("cuda:" + std::to_string(label.id));
}

#if WEIR_HAS_CUDA

// They live as long as the process, and each is borrowed once.
Stream cuda_legacy(int ordinal) {
  static std::mutex& mutex = *new std::mutex;
  static auto& streams = *new std::map<int, Stream>;
  const std::scoped_lock lock(mutex);
  const auto found = streams.find(ordinal);
  if (found != streams.end()) return found->second;
  auto* const legacy = reinterpret_cast<CUstream_st*>(cuda_legacy_stream);
  return streams.emplace(ordinal, cuda::borrow(weir::device("cuda:" + std::to_string(ordinal)), legacy)).first->second;
}

Stream cuda_stream(const Device& device, std::uintptr_t handle, std::shared_ptr<void> owner) {
  if (handle == cuda_legacy_stream && device.backend() == "cuda") return cuda_legacy(device.ordinal());
  return cuda::borrow(device, reinterpret_cast<CUstream_st*>(handle), std::move(owner));
}

std::uintptr_t cuda_pointer(const Buffer& buffer) { return cuda::pointer(buffer); }

std::optional<std::uintptr_t> cuda_stream_handle(const Stream& stream) {
  if (stream.device().backend() != "cuda") return std::nullopt;
  const auto native = [&] { return reinterpret_cast<std::uintptr_t>(cuda::native(stream)); };
  return has_nothing_held_back(stream.state()) ? native() : without_gil(native);
}

#else

Stream cuda_stream(const Device&, std::uintptr_t, std::shared_ptr<void>) {
  throw Error(Errc::unsupported, "this build of weir has no CUDA backend");
}

Stream cuda_legacy(int) { throw Error(Errc::unsupported, "this build of weir has no CUDA backend"); }
std::uintptr_t cuda_pointer(const Buffer& buffer) { return buffer.device_address(); }

std::optional<std::uintptr_t> cuda_stream_handle(const Stream&) { return std::nullopt; }

#endif

std::uintptr_t cuda_handle_of(nb::handle stream) {
  if (!nb::hasattr(stream, "__cuda_stream__")) {
    if (!is_integer(stream)) wrong_type(stream, "a CUDA stream", "an int or an object with __cuda_stream__");
    return address(stream, "a CUDA stream");
  }
  const nb::object protocol = stream.attr("__cuda_stream__");
  const nb::object answer = PyCallable_Check(protocol.ptr()) ? protocol() : protocol;
  if (PySequence_Check(answer.ptr()) == 0 || nb::len(answer) != 2)
    wrong_type(answer, "what __cuda_stream__ returns", "a version and a handle");
  if (integer(answer[0], "the version of __cuda_stream__") != 0)
    throw nb::value_error("unknown version of __cuda_stream__");
  return address(answer[1], "the handle of __cuda_stream__");
}

Stream borrow_cuda_stream(const Device& device, nb::handle stream) {
  if (nb::isinstance<Stream>(stream) && nb::cast<const Stream&>(stream).device() == device)
    return nb::cast<Stream>(stream);  // keeps itself
  const std::uintptr_t handle = cuda_handle_of(stream);
  if (!nb::hasattr(stream, "__cuda_stream__")) return cuda_stream(device, handle);
  auto reference = std::make_unique<Owner>(stream);
  return cuda_stream(device, handle, {reference.release(), [](Owner* owner) {
                       owner->drop();
                       delete owner;
                     }});
}

}  // namespace weir::python
