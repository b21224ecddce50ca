// SPDX-License-Identifier: Apache-2.0
// Memory by its address, for frameworks whose hooks know pointers and CUDA streams.

#include "cuda_allocator.hpp"

#include <nanobind/stl/shared_ptr.h>

#include <optional>

#include "cuda_stream.hpp"
#include "integers.hpp"

namespace weir::python {

#if WEIR_HAS_CUDA

namespace {

void* pointer(const Int& number, const char* what) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address(number, what)));
}

std::uintptr_t number(void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

CUstream_st* stream_of(nb::handle stream) { return reinterpret_cast<CUstream_st*>(cuda_handle_of(stream)); }

}  // namespace

void bind_cuda_allocator(nb::module_& m) {
  using cuda::Allocator;
  nb::class_<Allocator>(m, "CudaAllocator",
                        "Hands out addresses of a resource's memory in the order of CUDA streams, as cudaMallocAsync "
                        "does. For the hooks of frameworks; weir.torch, weir.cupy, weir.numba and weir.rmm stand on "
                        "it. Its end gives back what was not given back.")
      .def(nb::init<ResourcePtr>(), nb::arg("resource"))
      .def(
          "allocate",
          [](Allocator& self, const Int& size, nb::handle stream, const Int& alignment) {
            const std::size_t bytes = count(size, "size"), at = count(alignment, "alignment");
            CUstream_st* const on = stream_of(stream);
            return without_gil([&] { return number(self.allocate(on, bytes, at)); });
          },
          nb::arg("size"), nb::kw_only(), nb::arg("stream"), nb::arg("alignment") = default_alignment,
          "Return the address of `size` bytes for use on a CUDA stream: a handle, or an object with __cuda_stream__. 0 "
          "for no bytes. Raises OutOfMemory.")
      .def(
          "deallocate",
          [](Allocator& self, const Int& at, nb::handle stream) {
            void* const memory = pointer(at, "address");
            if (stream.is_none()) return without_gil([&] { self.deallocate(memory); });
            CUstream_st* const on = stream_of(stream);
            without_gil([&] { self.deallocate(on, memory); });
          },
          nb::arg("address"), nb::kw_only(), nb::arg("stream").none() = nb::none(),
          "Give memory back after everything on the stream so far. None is for a stream that may be gone: then the "
          "stream that the memory was allocated for may use it again at once, and others after what that stream has by "
          "now. Work of further streams on the memory must be over.")
      .def_prop_ro("resource", &Allocator::resource, "where the memory comes from")
      .def_prop_ro("live", &Allocator::live, "number of addresses that are not given back yet");
}

#else

namespace {
class NoAllocator {};
}  // namespace

void bind_cuda_allocator(nb::module_& m) {
  nb::class_<NoAllocator>(m, "CudaAllocator", "This build of weir has no CUDA backend.")
      .def("__init__", [](NoAllocator*, nb::handle) {
        throw Error(Errc::unsupported, "CudaAllocator: this build of weir has no CUDA backend");
      });
}

#endif

}  // namespace weir::python
