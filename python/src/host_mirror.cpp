// SPDX-License-Identifier: Apache-2.0
// HostMirror: device memory with a copy of it on the host. Operations that release the GIL hold the mirror, because
// another thread may close the object meanwhile.

#include <nanobind/stl/optional.h>

#include <memory>

#include "arrays.hpp"
#include "dtype.hpp"
#include "extents.hpp"
#include "held.hpp"
#include "owners.hpp"

namespace weir::python {
namespace {

using Mirror = Held<HostMirror>;
using Kept = std::shared_ptr<HostMirror>;

Buffer owner_of(const Buffer& buffer, const char* which) {
  if (buffer.is_closed()) throw Error(Errc::closed, std::string("HostMirror: ") + which + " is closed");
  return buffer.share();
}

struct Range {
  std::size_t offset, bytes;
};

/// Without a size, these are all bytes from the offset on. An offset behind the end is refused by the mirror.
Range range(const HostMirror& mirror, const Int& offset, const std::optional<Int>& size) {
  const std::size_t from = count(offset, "offset");
  return {from, size ? count(*size, "size") : mirror.size() - std::min(from, mirror.size())};
}

void sync_to_device(const Mirror& self, const Stream& stream, const Int& offset, const std::optional<Int>& size) {
  const Kept mirror = self.get("HostMirror.sync_to_device");
  const Range r = range(*mirror, offset, size);
  without_gil([&] { mirror->sync_to_device(r.offset, r.bytes, stream); });
}

void sync_to_host(const Mirror& self, const Stream& stream, const Int& offset, const std::optional<Int>& size) {
  const Kept mirror = self.get("HostMirror.sync_to_host");
  const Range r = range(*mirror, offset, size);
  without_gil([&] { mirror->sync_to_host(r.offset, r.bytes, stream); });
}

/// Return the host's side as an array of NumPy, which is made by the buffer protocol of Tensor.
nb::object array(const Mirror& self, nb::handle dtype, nb::handle shape) {
  const Kept mirror = self.get("HostMirror.array");
  const nb::object view = nb::cast(mirror->host().share()).attr("view")(dtype, shape);
  return array_of(nb::cast<const Tensor&>(view), nb::none(), nb::none());
}

}  // namespace

void bind_host_mirrors(nb::module_& m) {
  const auto none = nb::none();
  nb::class_<Mirror>(
      m, "HostMirror", nb::is_weak_referenceable(),
      "A Buffer and host memory of the same size beside it, brought in step by two calls. Where the host "
      "reaches the memory itself at full speed, both sides are one, and the syncs do nothing: the same "
      "program is right in both cases.")
      .def(
          "__init__",
          [](Mirror* self, const Buffer& device, const Stream& stream) {
            Buffer owner = owner_of(device, "device");
            auto made = without_gil([&] { return std::make_shared<HostMirror>(std::move(owner), stream); });
            new (self) Mirror("HostMirror", std::move(made));
          },
          nb::arg("device"), nb::kw_only(), nb::arg("stream"),
          "Become another owner of `device`, and allocate host memory of the kind that copies with it are fastest "
          "with, "
          "in order of `stream`. Nothing is copied. Raises OutOfMemory, and Error for memory that is read-only.")
      .def(
          "__init__",
          [](Mirror* self, const Buffer& device, const Buffer& host) {
            new (self)
                Mirror("HostMirror", std::make_shared<HostMirror>(owner_of(device, "device"), owner_of(host, "host")));
          },
          nb::arg("device"), nb::arg("host"),
          "Become another owner of both, which stay two memories. Raises Error when their sizes differ, when they are "
          "the same memory or overlap, when the host cannot reach `host`, and when either is read-only.")
      .def_prop_ro(
          "device", [](const Mirror& s) { return s.get("HostMirror.device")->device().share(); },
          "another owner of the device's side, for kernels, copies and views")
      .def_prop_ro(
          "host", [](const Mirror& s) { return s.get("HostMirror.host")->host().share(); },
          "another owner of the host's side")
      .def_prop_ro(
          "size", [](const Mirror& s) { return s.is_closed() ? 0 : s.get("HostMirror.size")->size(); },
          "bytes of each side; 0 when closed")
      .def_prop_ro(
          "is_one_memory", [](const Mirror& s) { return s.get("HostMirror.is_one_memory")->is_one_memory(); },
          "whether both sides are the same bytes. The host must then not write while the device uses them")
      .def_prop_ro("is_closed", &Mirror::is_closed)
      .def("sync_to_device", &sync_to_device, nb::kw_only(), nb::arg("stream"), nb::arg("offset") = 0,
           nb::arg("size") = none,
           "Enqueue a copy of `size` bytes from `offset` on, or of all, from the host's side to the device's. The "
           "host's side is read when `stream` gets there: leave it alone until then.")
      .def("sync_to_host", &sync_to_host, nb::kw_only(), nb::arg("stream"), nb::arg("offset") = 0,
           nb::arg("size") = none,
           "The same in the other direction. The host sees the bytes once `stream` has passed this point: wait before "
           "reading them, or call array(), which waits.")
      .def("array", &array, nb::arg("dtype") = "uint8", nb::arg("shape").none() = none,
           nb::sig("def array(self, dtype: object = 'uint8', shape: SupportsIndex | Sequence[SupportsIndex] | None = "
                   "None) -> object"),
           "The host's side as a writable numpy.ndarray, without a copy; all of it without a shape. Blocks until every "
           "use of the host's side so far is complete. An array that is kept sees later syncs once their stream has "
           "passed them, and keeps the memory after close().")
      .def("close", &Mirror::close, "Drop both owners. The memory is reused after all recorded uses. Never blocks.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](Mirror& s, nb::args) { s.close(); })
      .def("__repr__", [](const Mirror& s) {
        if (s.is_closed()) return std::string("<weir.HostMirror closed>");
        const Kept mirror = s.get("HostMirror");
        return "<weir.HostMirror " + std::to_string(mirror->size()) + " bytes, " +
               std::string(to_string(mirror->device().kind())) + " on " + mirror->device().device().id() +
               (mirror->is_one_memory() ? ", one memory>" : ">");
      });
}

}  // namespace weir::python
