// SPDX-License-Identifier: Apache-2.0
// The extension module: one call per subject, in the order in which types refer to each other.

#include "bind.hpp"
#include "cuda_allocator.hpp"
#include "dlpack_names.hpp"
#include "files.hpp"
#include "functions.hpp"
#include "weir/version.hpp"

namespace weir::python {
namespace {

/// The types of the module are those of the process, so that there is one module and one interpreter that has it.
void allow_once() {
  static bool loaded = false;  // guarded by the GIL
  if (loaded)
    throw nb::import_error(
        "weir can be loaded once per process: not again after it was removed from sys.modules, and not by a second "
        "interpreter");
  loaded = true;
}

/// Objects that daemon threads and users' own cycles leave behind at the end are none of the module's mistakes.
bool reports_leaks() { return nb::cast<bool>(nb::module_::import_("sys").attr("flags").attr("dev_mode")); }

}  // namespace
}  // namespace weir::python

NB_MODULE(_weir, m) {
  weir::python::allow_once();
  nb::set_leak_warnings(weir::python::reports_leaks());
  m.doc() = "Memory shared by GPUs, CPUs, processes and frameworks.";
  m.attr("__version__") = WEIR_VERSION_STRING;
  weir::python::intern_names();
  weir::python::bind_errors(m);
  weir::python::bind_devices(m);
  weir::python::bind_streams(m);
  weir::python::bind_resources(m);
  weir::python::bind_pools(m);
  weir::python::bind_adaptors(m);
  weir::python::bind_statistics(m);
  weir::python::bind_tracking(m);
  weir::python::bind_failure_callbacks(m);
  weir::python::bind_callback_resources(m);
  weir::python::bind_padding(m);
  weir::python::bind_tensors(m);
  weir::python::bind_exchange(m);
  weir::python::bind_buffers(m);
  weir::python::bind_host_mirrors(m);
  weir::python::bind_mirrored_buffers(m);
  weir::python::bind_device_vectors(m);
  weir::python::bind_vulkan(m);
  weir::python::bind_cuda_allocator(m);
  weir::python::bind_cuda_memory(m);
  weir::python::bind_cuda_pools(m);
  weir::python::bind_torch_hooks(m);
  weir::python::bind_ipc(m);
  weir::python::bind_command_line(m);
  weir::python::refuse_pickling(m);
  weir::python::bind_messages(m);
  weir::python::drop_functions_at_exit();
  weir::python::close_servers_at_exit();
}
