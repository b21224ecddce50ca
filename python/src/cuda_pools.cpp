// SPDX-License-Identifier: Apache-2.0
// weir.cuda: pools of CUDA's driver between processes, as cuda.core shares them.

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include "files.hpp"
#include "integers.hpp"
#if WEIR_HAS_CUDA
#include "weir/interop/cuda_pools.hpp"
#endif

namespace weir::python {
namespace {

#if WEIR_HAS_CUDA

using cuda::ImportedPool, cuda::PoolPointer;

/// Return a duplicate of a file that is given as a number, by fileno(), or by an object that int() takes, such as
/// cuda.core's allocation handles.
spi::UniqueFd file_of(nb::handle object) {
  if (PyLong_Check(object.ptr()) != 0 || nb::hasattr(object, "fileno")) return duplicate_file(socket_of(object));
  const nb::object number = nb::steal(PyNumber_Long(object.ptr()));
  if (!number) throw nb::python_error();
  return duplicate_file(socket_of(number));
}

Buffer open(const ImportedPool& pool, nb::bytes pointer, const Int& size, const Stream& stream) {
  const std::size_t bytes = count(size, "size");
  const std::span name{reinterpret_cast<const std::byte*>(pointer.c_str()), pointer.size()};
  return without_gil([&] { return pool.open(name, bytes, stream); });
}

void bind_functions(nb::module_& m) {
  nb::class_<ImportedPool>(m, "ImportedPool",
                           "A pool of CUDA's driver that another process made. Opens its memory, and makes none.")
      .def(
          "__init__",
          [](ImportedPool* self, const Device& device, nb::handle file) {
            spi::UniqueFd mine = file_of(file);
            without_gil([&] { new (self) ImportedPool(device, std::move(mine)); });
          },
          nb::arg("device"), nb::arg("file"))
      .def_prop_ro("device", &ImportedPool::device)
      .def("_open", &open, nb::arg("pointer"), nb::arg("size"), nb::kw_only(), nb::arg("stream"));
  m.def(
      "make_async_resource",
      [](const Device& device, const std::optional<Int>& release_threshold, const Int& max_size, bool exportable) {
        cuda::AsyncOptions options{.max_size = count(max_size, "max_size"), .exportable = exportable};
        if (release_threshold) options.release_threshold = count(*release_threshold, "release_threshold");
        return without_gil([&] { return cuda::make_async_resource(device, options); });
      },
      nb::arg("device"), nb::kw_only(), nb::arg("release_threshold") = nb::none(), nb::arg("max_size") = 0,
      nb::arg("exportable") = false);
  m.def(
      "export_pool",
      [](const ResourcePtr& resource) { return without_gil([&] { return cuda::export_pool(resource); }).release(); },
      nb::arg("resource"));
  m.def(
      "export_pointer",
      [](const Buffer& buffer) {
        const Buffer owner = buffer.share();
        const PoolPointer pointer = without_gil([&] { return cuda::export_pointer(owner); });
        return nb::bytes(reinterpret_cast<const char*>(pointer.data()), pointer.size());
      },
      nb::arg("buffer"));
}

#else

void bind_functions(nb::module_& m) {
  struct ImportedPool {};
  const auto refuse = [](const nb::args&, const nb::kwargs&) {
    throw Error(Errc::unsupported, "this build of weir has no CUDA backend");
  };
  nb::class_<ImportedPool>(m, "ImportedPool")
      .def("__init__", [refuse](ImportedPool*, const nb::args& a, const nb::kwargs& k) { refuse(a, k); });
  for (const char* name : {"make_async_resource", "export_pool", "export_pointer"}) m.def(name, refuse);
}

#endif

}  // namespace

void bind_cuda_pools(nb::module_& m) {
  nb::module_ sub = m.def_submodule("cuda", "What only CUDA has.");
  bind_functions(sub);
}

}  // namespace weir::python
