// SPDX-License-Identifier: Apache-2.0
// weir.cuda: memory with options that only CUDA has.

#include <nanobind/stl/shared_ptr.h>

#include "bind.hpp"
#if WEIR_HAS_CUDA
#include "weir/cuda.hpp"
#endif

namespace weir::python {

void bind_cuda_memory(nb::module_& m) {
  nb::module_ cuda = m.def_submodule("cuda", "What only CUDA has.");
#if WEIR_HAS_CUDA
  cuda.def(
      "make_vmm_resource",
      [](const Device& device, bool exportable, bool vulkan) {
        return without_gil(
            [&] { return cuda::make_vmm_resource(device, {.exportable = exportable, .vulkan = vulkan}); });
      },
      nb::arg("device"), nb::kw_only(), nb::arg("exportable") = false, nb::arg("vulkan") = false);
#else
  cuda.def("make_vmm_resource", [](const nb::args&, const nb::kwargs&) {
    throw Error(Errc::unsupported, "this build of weir has no CUDA backend");
  });
#endif
}

}  // namespace weir::python
