// SPDX-License-Identifier: Apache-2.0
// Values for the elements of a Tensor, and tensors that are like another one.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include "fill.hpp"
#include "host_array.hpp"
#include "tensor_parts.hpp"

namespace weir::python {
namespace {

void fill(const Tensor& self, nb::handle value, const Stream& stream, bool over_gaps) {
  const Tensor tensor = open_tensor(self, "Tensor.fill");
  const std::vector<std::byte> element = element_of(value, tensor.layout().dtype);
  without_gil([&] { tensor.fill_pattern(element, stream, {.over_gaps = over_gaps}); });
}

void zero(const Tensor& self, const Stream& stream, bool over_gaps) {
  const Tensor tensor = open_tensor(self, "Tensor.zero");
  without_gil([&] { tensor.zero(stream, {.over_gaps = over_gaps}); });
}

Tensor empty_like(const Tensor& self, std::optional<ResourcePtr> resource, const Stream& stream) {
  const Tensor tensor = open_tensor(self, "Tensor.empty_like");
  const ResourcePtr from = resource ? std::move(*resource) : tensor.buffer().memory_resource();
  return without_gil([&] { return tensor.empty_like(from, stream); });
}

Tensor empty_like_host(const Tensor& self, const Stream& stream) {
  const Tensor tensor = open_tensor(self, "Tensor.empty_like_host");
  return without_gil([&] { return tensor.empty_like_host(stream); });
}

}  // namespace

void bind_tensor_fills(nb::class_<Tensor>& c) {
  c.def("fill", &fill, nb::arg("value").none(), nb::kw_only(), nb::arg("stream"), nb::arg("over_gaps") = false,
        "Enqueue a fill of all elements. The value is a number or bool that fits into the element type, a scalar of "
        "NumPy, or the bytes of one element; floats are no integers. Gaps and padding stay as they are; with "
        "`over_gaps` "
        "everything from the first element to the last is written, which is faster. Raises TypeError and ValueError "
        "for other values, Error for elements that share memory and for read-only memory.")
      .def("zero", &zero, nb::kw_only(), nb::arg("stream"), nb::arg("over_gaps") = false,
           "Enqueue a fill of all elements, of any type, with zero bytes. Otherwise like fill.")
      .def("empty_like", &empty_like, nb::arg("resource").none() = nb::none(), nb::kw_only(), nb::arg("stream"),
           nb::sig("def empty_like(self, resource: MemoryResource | None = None, *, stream: Stream) -> Tensor"),
           "A tensor of the same shape, element type and padding, over new memory of `resource`, or of this tensor's "
           "own "
           "resource. The elements have no value yet. Raises OutOfMemory.")
      .def("empty_like_host", &empty_like_host, nb::kw_only(), nb::arg("stream"),
           "The same in the host memory that copies from and to this tensor are fastest with. Making such memory is "
           "slow: keep the tensor, or give empty_like a pool of that kind.");
}

}  // namespace weir::python
