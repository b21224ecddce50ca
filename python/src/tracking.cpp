// SPDX-License-Identifier: Apache-2.0
// Resources that know their live buffers.

#include "weir/adaptors/tracking.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "integers.hpp"

namespace weir::python {
namespace {

std::vector<std::uintptr_t> stack_of(const TrackedBuffer& buffer) {
  std::vector<std::uintptr_t> addresses;
  for (void* const address : buffer.stack) addresses.push_back(reinterpret_cast<std::uintptr_t>(address));
  return addresses;
}

/// Return the line about a buffer. Looking names up takes a while.
std::string line_about(const TrackedBuffer& buffer) {
  return without_gil([&] { return buffer.to_string(); });
}

}  // namespace

void bind_tracking(nb::module_& m) {
  nb::class_<TrackedBuffer>(m, "TrackedBuffer", "A live Buffer of a TrackingResource. str() is a line about it.")
      .def_ro("number", &TrackedBuffer::number, "counts the resource's allocations, from 1")
      .def_ro("size", &TrackedBuffer::bytes, "bytes, as asked for")
      .def_ro("alignment", &TrackedBuffer::alignment, "in bytes")
      .def_ro("stream", &TrackedBuffer::stream, "Stream.id of the allocation stream")
      .def_prop_ro("stack", &stack_of,
                   "return addresses of native code, innermost first; empty unless `stack_depth` asked for them")
      .def("__str__", &line_about)
      .def("__repr__", [](const TrackedBuffer& b) {
        return "<weir.TrackedBuffer " + std::to_string(b.number) + ", " + std::to_string(b.bytes) + " bytes>";
      });
  nb::class_<TrackingResource, MemoryResource>(
      m, "TrackingResource",
      "Remembers each Buffer until its last owner is gone; slices, Tensors and exports count as the same Buffer. "
      "When the last handle goes away while Buffers are live, these are reported on stderr. Made by make_tracking.")
      .def(
          "outstanding", [](const TrackingResource& r) { return without_gil([&] { return r.outstanding(); }); },
          "The live Buffers, oldest first. Buffers of zero bytes are not among them.");
  m.def(
      "make_tracking",
      [](ResourcePtr upstream, const Int& stack_depth, bool report_leaks) {
        const TrackingOptions options{.stack_depth = count(stack_depth, "stack_depth"), .report_leaks = report_leaks};
        return without_gil([&] { return make_tracking(std::move(upstream), options); });
      },
      nb::arg("upstream"), nb::kw_only(), nb::arg("stack_depth") = 0, nb::arg("report_leaks") = true,
      "Remember which Buffers are live. `stack_depth` return addresses of native code are kept for each, which costs "
      "far more than the allocation.");
}

}  // namespace weir::python
