// SPDX-License-Identifier: Apache-2.0
// The extension module: one call per subject, in the order in which types refer to each other.

#include "bind.hpp"
#include "weir/version.hpp"

NB_MODULE(_weir, m) {
  m.doc() = "Memory shared by GPUs, CPUs, processes and frameworks.";
  m.attr("__version__") = WEIR_VERSION_STRING;
  weir::python::bind_errors(m);
  weir::python::bind_devices(m);
  weir::python::bind_streams(m);
  weir::python::bind_resources(m);
  weir::python::bind_tensors(m);
  weir::python::bind_buffers(m);
  weir::python::bind_ipc(m);
}
