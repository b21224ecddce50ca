// SPDX-License-Identifier: Apache-2.0
// Copies between Tensors, and between a Tensor and arrays of the host.

#include <cstring>

#include "host_array.hpp"
#include "integers.hpp"
#include "ordering.hpp"
#include "tensor_parts.hpp"
#include "weir/host.hpp"

namespace weir::python {
namespace {

/// Return a copy of an array of the host, row-major without gaps. It is complete.
Tensor snapshot(const Tensor& array) {
  const Stream& stream = host_stream();
  Tensor copy = without_gil([&] {
    const Layout compact = Layout::compact(array.layout().dtype, array.layout().shape);
    Tensor made{host::make_pageable_resource()->allocate(compact.bytes_needed(), stream), compact};
    array.copy_to(made, stream);
    return made;
  });
  wait_for(without_gil([&] { return stream.record(); }), std::nullopt);
  return copy;
}

/// Copy elements of the host to `dst`, and return once the host has read them.
void copy_from_host(Tensor& dst, const Tensor& array, const Stream& stream) {
  const Layout &from = array.layout(), &to = dst.layout();
  if (from.dtype != to.dtype || from.shape != to.shape || from.elements() == 0)
    return dst.copy_from(array, stream);  // refuses it, or has nothing to do
  if (from.is_compact() && to.is_compact()) {
    complete_on_host(array.buffer());
    without_gil([&] { dst.buffer().copy_from(bytes_of(array), stream, to.byte_offset); });
    return;
  }
  const Tensor copy = snapshot(array);
  without_gil([&] { dst.copy_from(copy, stream); });
}

/// Copy to an array of the host, which stays locked until the stream has passed the copy.
void copy_to_host(const Tensor& src, const HostArray& array, const Stream& stream) {
  const bool done = without_gil([&] {
    src.copy_to(array.tensor, stream);
    return stream.done();
  });
  if (!array.give_up) return;
  done ? array.give_up() : without_gil([&] { stream.call(array.give_up); });
}

void copy_from(const Tensor& self, nb::handle source, const Stream& stream) {
  copy_elements_from(open_tensor(self, "Tensor.copy_from"), source, stream);
}

nb::object copy_to(const Tensor& self, nb::object target, const Stream& stream) {
  return copy_elements_to(open_tensor(self, "Tensor.copy_to"), std::move(target), stream);
}

[[noreturn]] void set_item(const Tensor&, nb::handle, nb::handle) {
  fail(PyExc_TypeError,
       "an assignment names no stream: use tensor[index].fill(value, stream=stream) for a value, and "
       "tensor[index].copy_from(array, stream=stream) for an array");
}

}  // namespace

std::span<const std::byte> bytes_of(const Tensor& array) {
  const Layout& layout = array.layout();
  const auto elements = static_cast<std::size_t>(layout.elements());
  return {array.buffer().host_data() + layout.byte_offset, elements * layout.dtype.bytes()};
}

Tensor complete_rows(const Tensor& array) {
  if (!array.layout().is_compact()) return snapshot(array);
  complete_on_host(array.buffer());
  return array.share();
}

void copy_elements_from(Tensor dst, nb::handle source, const Stream& stream) {
  if (const std::optional<Tensor> src = weir_tensor(source, "Tensor.copy_from")) {
    without_gil([&] { dst.copy_from(*src, stream); });
    return;
  }
  const HostArray array = host_array(source, "src", Access::read);
  copy_from_host(dst, array.tensor, stream);
  if (array.give_up) array.give_up();
}

nb::object copy_elements_to(const Tensor& src, nb::object target, const Stream& stream) {
  if (target.is_none()) return nb::cast(without_gil([&] { return src.copy_to(stream); }));
  if (const std::optional<Tensor> dst = weir_tensor(target, "Tensor.copy_to"))
    without_gil([&] { src.copy_to(*dst, stream); });
  else
    copy_to_host(src, host_array(target, "dst", Access::write), stream);
  return target;
}

void bind_tensor_copies(nb::class_<Tensor>& c) {
  c.def("copy_to", &copy_to, nb::arg("dst").none() = nb::none(), nb::kw_only(), nb::arg("stream"),
        "Enqueue a copy of all elements to those of a tensor of the same shape and element type, which may lie "
        "anywhere and in any way, or to a new one without gaps from this one's resource. A writable array of the host "
        "(buffer protocol, or __dlpack__), with any strides, is taken like a tensor: read it once `stream` has passed "
        "the copy; until then it stays locked. Returns the destination.")
      .def(
          "copy_from", &copy_from, nb::arg("src").none(), nb::kw_only(), nb::arg("stream"),
          "Enqueue a copy of all elements of `src`, a tensor of the same shape and element type, to those of this one. "
          "An array of the host (buffer protocol, or __dlpack__), with any strides, has been read when the call "
          "returns. To leave out the copy that this may need, pass from_dlpack(array), and do not change the array "
          "before the copy is complete.")
      .def("__setitem__", &set_item, nb::arg("key").none(), nb::arg("value").none(),
           "Raises TypeError: an assignment names no stream. Use fill and copy_from of a part.");
}

}  // namespace weir::python
