// SPDX-License-Identifier: Apache-2.0
// weir.ipc.leased_to and wait_for_returns: who uses memory that went to other processes, and when it comes back.

#include "weir/leases.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <optional>

#include "files.hpp"
#include "integers.hpp"
#include "patience.hpp"

namespace weir::python {
namespace {

using ipc::LeasedTo;
using std::chrono::milliseconds;

std::optional<std::int32_t> process_of(const LeasedTo& one) {
  return one.process == 0 ? std::nullopt : std::optional(one.process);
}

// Waits in slices, so that Ctrl-C ends the wait.
bool wait_for_returns(const ResourcePtr& resource, const Int& most_bytes, std::optional<double> timeout) {
  const std::size_t most = count(most_bytes, "most_bytes");
  const Patience patience(timeout);
  for (;;) {
    const milliseconds now = patience.left(Patience::slice);
    if (without_gil([&] { return ipc::wait_for_returns(*resource, most, now); })) return true;
    if (patience.is_over()) return false;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

}  // namespace

void bind_leases(nb::module_& ipc) {
  nb::class_<LeasedTo>(ipc, "LeasedTo", "What one process uses of a resource's memory. Buffers count with all bytes.")
      .def_prop_ro("process", &process_of, "The process id of a channel's peer; None where it is not known.")
      .def_ro("buffers", &LeasedTo::buffers)
      .def_ro("bytes", &LeasedTo::bytes)
      .def_ro("closed_buffers", &LeasedTo::closed_buffers, "Those that have no owner in this process any more.")
      .def_ro("closed_bytes", &LeasedTo::closed_bytes);
  ipc.def(
      "leased_to",
      [](const ResourcePtr& resource) { return without_gil([&] { return weir::ipc::leased_to(*resource); }); },
      nb::arg("resource"),
      "Which processes use memory of `resource` at this moment, the one with the most bytes first.");
  ipc.def("wait_for_returns", &wait_for_returns, nb::arg("resource"), nb::kw_only(), nb::arg("most_bytes") = 0,
          nb::arg("timeout") = nb::none(),
          "Wait until other processes use at most `most_bytes` of the resource's memory; False when `timeout`, in "
          "seconds, has passed. Ctrl-C ends the wait.");
}

}  // namespace weir::python
