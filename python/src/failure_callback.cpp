// SPDX-License-Identifier: Apache-2.0
// A Python function that is called when memory runs out.

#include "weir/adaptors/failure_callback.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <utility>

#include "functions.hpp"
#include "integers.hpp"

namespace weir::python {
namespace {

/// weir::AllocationFailure with its own copy of everything, because Python code may keep it.
struct KeptFailure {
  std::size_t size, alignment, attempt;
  Stream stream;
  Shortage shortage;
};

/// Call the function. An exception of Python passes through weir to the caller of `allocate`. When Python ends, every
/// request is refused.
bool ask(const Function& function, const AllocationFailure& f) {
  if (!Py_IsInitialized()) return false;
  const WithGil gil;
  const nb::object callback = function.get();
  if (!callback) return false;
  const nb::object again = call(callback, KeptFailure{f.bytes, f.alignment, f.attempt, f.stream, f.shortage});
  const int yes = PyObject_IsTrue(again.ptr());
  if (yes < 0) throw nb::python_error();
  return yes != 0;
}

ResourcePtr make(ResourcePtr upstream, nb::handle function, const Int& max_attempts) {
  auto shared = function_of(function, "callback");
  const FailureCallbackOptions options{.max_attempts = count(max_attempts, "max_attempts")};
  return without_gil([&] {
    return make_failure_callback(
        std::move(upstream), [shared = std::move(shared)](const AllocationFailure& f) { return ask(*shared, f); },
        options);
  });
}

}  // namespace

void bind_failure_callbacks(nb::module_& m) {
  const auto figure = [](std::size_t Shortage::*member) {
    return [member](const KeptFailure& f) { return f.shortage.*member; };
  };
  const auto text = [](std::string Shortage::*member) {
    return [member](const KeptFailure& f) { return f.shortage.*member; };
  };
  nb::class_<KeptFailure>(m, "AllocationFailure",
                          "A request that upstream could not serve, and what upstream said: bytes, 0 where unknown.")
      .def_ro("size", &KeptFailure::size, "bytes, as asked for")
      .def_ro("alignment", &KeptFailure::alignment, "in bytes")
      .def_ro("stream", &KeptFailure::stream, "the allocation stream")
      .def_ro("attempt", &KeptFailure::attempt, "1 at the first call for this request")
      .def_prop_ro("in_use", figure(&Shortage::in_use))
      .def_prop_ro("reserved", figure(&Shortage::reserved))
      .def_prop_ro("limit", figure(&Shortage::limit))
      .def_prop_ro("largest_free", figure(&Shortage::largest_free))
      .def_prop_ro("device_free", figure(&Shortage::device_free))
      .def_prop_ro("device", text(&Shortage::device))
      .def_prop_ro("resource", text(&Shortage::resource), "the resource that refused")
      .def_prop_ro("call", text(&Shortage::call), "the driver call that refused; empty when the driver was not asked")
      .def("__repr__", [](const KeptFailure& f) {
        return "<weir.AllocationFailure " + std::to_string(f.size) + " bytes from " + f.shortage.resource +
               ", attempt " + std::to_string(f.attempt) + ">";
      });
  m.def("make_failure_callback", &make, nb::arg("upstream"), nb::arg("callback"), nb::kw_only(),
        nb::arg("max_attempts") = FailureCallbackOptions{}.max_attempts,
        nb::sig("def make_failure_callback(upstream: MemoryResource, callback: Callable[[AllocationFailure], bool], *, "
                "max_attempts: int = 16) -> MemoryResource"),
        "When `upstream` is out of memory, call `callback`, and ask upstream again if it returns something true; at "
        "most `max_attempts` times for one request. It runs on the thread that wants the memory, and on several "
        "threads at once; it may close, allocate and trim. An exception of it reaches the caller of allocate. The "
        "resource keeps `callback` alive until the interpreter ends, and the garbage collector cannot see that: let it "
        "refer weakly to the resource and to Buffers of it.");
}

}  // namespace weir::python
