// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shared by the files of the extension module: one bind_ function per subject, and small conversions.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <typeinfo>

#include "weir/weir.hpp"

namespace nb = nanobind;

/// A resource is an object of its own class (weir.Pool) wherever it comes from: a factory, a Buffer, `upstream`.
template <>
struct nanobind::detail::type_hook<weir::MemoryResource> {
  static const std::type_info* get(const weir::MemoryResource* resource) noexcept;
};

namespace weir::python {

void bind_errors(nb::module_& m);
void bind_devices(nb::module_& m);
void bind_streams(nb::module_& m);
void bind_resources(nb::module_& m);
void bind_pools(nb::module_& m);
void bind_adaptors(nb::module_& m);
void bind_statistics(nb::module_& m);
void bind_tracking(nb::module_& m);
void bind_failure_callbacks(nb::module_& m);
void bind_callback_resources(nb::module_& m);
void bind_buffers(nb::module_& m);
void bind_padding(nb::module_& m);
void bind_tensors(nb::module_& m);
void bind_exchange(nb::module_& m);
void bind_host_mirrors(nb::module_& m);
void bind_mirrored_buffers(nb::module_& m);
void bind_device_vectors(nb::module_& m);
void bind_vulkan(nb::module_& m);
void bind_ipc(nb::module_& m);
void bind_command_line(nb::module_& m);
void refuse_pickling(nb::module_& m);
void bind_messages(nb::module_& m);
void bind_cuda_memory(nb::module_& m);
void bind_cuda_pools(nb::module_& m);

/// What the argument `read_only` of calls that lend memory stands for.
constexpr ipc::Access access_of(bool read_only) noexcept {
  return read_only ? ipc::Access::read_only : ipc::Access::read_write;
}

/// Wait for `event` without the GIL, and answer Ctrl-C meanwhile. `seconds` bounds the wait; false when they passed
/// first.
bool wait_for(const Event& event, std::optional<double> seconds);

/// Gives the GIL up, and takes it back with end().
class WithoutGil {
 public:
  WithoutGil() noexcept : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() { end(); }
  /// Return with the GIL; or never, on a daemon thread that outlives the interpreter.
  void end() noexcept;

 private:
  PyThreadState* state_;
};

/// Stop this thread, which Python ends because the interpreter has ended. Python before 3.14 does so by unwinding the
/// stack, which may not pass functions of C++.
[[noreturn]] void wait_for_the_end_of_the_process() noexcept;

/// Takes the GIL on any thread, for as long as this lives.
class WithGil {
 public:
  /// Return with the GIL; or never, where the interpreter ends first.
  WithGil() noexcept;
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

/// Run `f` without the GIL. Nothing in it may touch a Python object that another thread can reach.
template <class F>
decltype(auto) without_gil(F&& f) {
  const WithoutGil released;
  return f();
}

}  // namespace weir::python
