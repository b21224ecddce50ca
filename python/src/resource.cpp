// SPDX-License-Identifier: Apache-2.0
// Memory resources, from which Buffers come.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include "resource.hpp"

#include <array>

#include "arguments.hpp"
#include "dtype.hpp"
#include "extents.hpp"
#include "guarded.hpp"
#include "integers.hpp"
#include "owners.hpp"
#include "texts.hpp"
#include "weir/current_resource.hpp"
#include "weir/host.hpp"

namespace {

/// Return the class of `resource` among these, or MemoryResource.
template <class... Classes>
const std::type_info* class_among(const weir::MemoryResource* resource) noexcept {
  const std::type_info* found = &typeid(weir::MemoryResource);
  (static_cast<void>(dynamic_cast<const Classes*>(resource) && (found = &typeid(Classes))), ...);
  return found;
}

}  // namespace

const std::type_info* nanobind::detail::type_hook<weir::MemoryResource>::get(
    const weir::MemoryResource* resource) noexcept {
  return class_among<weir::Pool, weir::LimitingResource, weir::StatisticsResource, weir::TrackingResource,
                     weir::DebugResource, weir::LoggingResource>(resource);
}

namespace weir::python {
namespace {

Tensor allocate_tensor(MemoryResource& resource, nb::handle shape, nb::handle dtype, const Stream& stream,
                       nb::handle padded_shape, const Int& alignment) {
  Layout layout = layout_of(dtype_of(dtype), shape, padded_shape, 0);
  const std::size_t bytes = padded_bytes(layout, padded_shape), align = count(alignment, "alignment");
  return without_gil([&] { return Tensor(resource.allocate(bytes, stream, align), std::move(layout)); });
}

MemoryKind kind_of(const Device& device, nb::handle kind) {
  if (kind.is_none()) return device.default_kind();
  if (nb::isinstance<MemoryKind>(kind)) return nb::cast<MemoryKind>(kind);
  if (!nb::isinstance<nb::str>(kind)) throw nb::type_error("kind must be a weir.MemoryKind or its name");
  std::string name = string_of(kind, "kind");
  if (name == "async_") name = "async";  // which no name in Python can be
  std::string names;
  for (std::uint8_t i = 0; is_memory_kind(i); ++i) {
    const auto candidate = static_cast<MemoryKind>(i);
    if (to_string(candidate) == name) return candidate;
    names += " " + std::string{to_string(candidate)};
  }
  throw nb::value_error(("no kind of memory is named '" + name + "'; there are" + names).c_str());
}

PyObject* allocate(PyObject* self, PyObject* const* values, Py_ssize_t positional, PyObject* names) noexcept {
  return plainly([&] {
    const Call call{"allocate", values, static_cast<std::size_t>(positional), names};
    std::array<PyObject*, 3> given;
    take(call, given, {Name::size, Name::stream, Name::alignment}, 1);
    const auto [size, on, alignment] = given;
    if (!size) missing(call, Name::size);
    if (!on) missing(call, Name::stream);
    auto& resource = instance<MemoryResource>(self, "self");
    const std::size_t bytes = count(size, "size");
    const Stream stream = instance<Stream>(on, "stream");  // an owner: another thread may drop the object
    const std::size_t align = alignment ? count(alignment, "alignment") : default_alignment;
    return new_object(without_gil([&] { return resource.allocate(bytes, stream, align); }));
  });
}

PyMethodDef methods[] = {
    {"allocate", as_function(&allocate), METH_FASTCALL | METH_KEYWORDS,
     "allocate($self, /, size, *, stream, alignment=256)\n--\n\n"
     "Allocate `size` bytes, usable on `stream` at once and elsewhere after waiting for a point of it. Raises\n"
     "OutOfMemory."},
    {}};

PyType_Slot resource_slots[] = {{Py_tp_methods, methods}, {0, nullptr}};

}  // namespace

nb::dict dict_of(const ResourceStats& s) {
  nb::dict out;
  out["in_use"] = s.in_use;
  out["reserved"] = s.reserved;
  out["peak_in_use"] = s.peak_in_use;
  out["peak_reserved"] = s.peak_reserved;
  out["live_buffers"] = s.live_buffers;
  out["allocations"] = s.allocations;
  out["leased"] = s.leased;
  out["leased_buffers"] = s.leased_buffers;
  out["leased_closed"] = s.leased_closed;
  out["leased_closed_buffers"] = s.leased_closed_buffers;
  if (s.device_budget) out["device_budget"] = *s.device_budget;
  if (s.device_free) out["device_free"] = *s.device_free;
  return out;
}

void bind_resources(nb::module_& m) {
  nb::class_<MemoryResource>(m, "MemoryResource", nb::is_weak_referenceable(),
                             "Source of memory. Thread-safe; its Buffers keep it alive.",
                             nb::type_slots(resource_slots))
      .def(
          "try_allocate",
          [](MemoryResource& r, const Int& size, const Stream& stream, const Int& alignment) {
            const std::size_t bytes = count(size, "size"), align = count(alignment, "alignment");
            return without_gil([&] { return r.try_allocate(bytes, stream, align); });
          },
          nb::arg("size"), nb::kw_only(), nb::arg("stream"), nb::arg("alignment") = default_alignment,
          "As allocate, but None when memory is exhausted.")
      .def("allocate_tensor", &allocate_tensor, nb::arg("shape"), nb::arg("dtype"), nb::kw_only(), nb::arg("stream"),
           nb::arg("padded_shape").none() = nb::none(), nb::arg("alignment") = default_alignment,
           nb::sig("def allocate_tensor(self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: object, *, "
                   "stream: Stream, padded_shape: SupportsIndex | Sequence[SupportsIndex] | None = None, "
                   "alignment: SupportsIndex = 256) -> Tensor"),
           "Allocate memory for an array, row-major, whose elements have no value yet. With `padded_shape` there is "
           "memory for a whole array of that shape, and the tensor is the first `shape[i]` positions along each "
           "dimension of it. In order of `stream` as allocate. Raises OutOfMemory, and Error for shapes that no array "
           "can have.")
      .def_prop_ro("device", &MemoryResource::device)
      .def_prop_ro("name", &MemoryResource::name, "for example 'host.shared'")
      .def_prop_ro("kind", &MemoryResource::kind)
      .def_prop_ro("is_host_accessible", &MemoryResource::is_host_accessible)
      .def_prop_ro("is_device_accessible", &MemoryResource::is_device_accessible)
      .def_prop_ro("is_exportable", &MemoryResource::is_exportable, "whether its Buffers can go to another process")
      .def_prop_ro("upstream", &MemoryResource::upstream, "the resource this one stands on, or None")
      .def(
          "stats", [](const MemoryResource& r) { return dict_of(without_gil([&] { return r.stats(); })); },
          "Counters in bytes: in_use, reserved, peak_in_use, peak_reserved; and live_buffers, "
          "allocations. Of memory that other processes use: leased (bytes), leased_buffers, and the part that is "
          "closed here, leased_closed (bytes), leased_closed_buffers. Where the driver says them, also device_budget "
          "and device_free, in bytes.")
      .def(
          "trim",
          [](MemoryResource& r, const Int& keep) {
            const std::size_t bytes = count(keep, "bytes_to_keep");
            const std::size_t given_back = without_gil([&] { return r.trim(bytes); });
            make_pending_calls();
            return given_back;
          },
          nb::arg("bytes_to_keep") = 0, "Give back unused memory; the bytes given back.")
      .def("__repr__", [](nb::handle self) {
        const auto& r = nb::cast<const MemoryResource&>(self);
        return std::string("<weir.") + nb::cast<std::string>(self.type().attr("__name__")) + " " + r.name() + " on " +
               r.device().id() + ">";
      });

  m.def(
      "make_resource",
      [](const Device& device, nb::handle kind, bool exportable) {
        const MemoryKind wanted = kind_of(device, kind);
        return without_gil([&] { return make_resource(device, wanted, {.exportable = exportable}); });
      },
      nb::arg("device"), nb::arg("kind").none() = nb::none(), nb::kw_only(), nb::arg("exportable") = false,
      nb::sig("def make_resource(device: Device, kind: MemoryKind | str | None = None, *, exportable: bool = False) "
              "-> MemoryResource"),
      "The plain resource of one kind of memory; None is the device's default kind.");

  m.def(
      "make_shared_resource",
      [](bool read_only_for_peers) {
        return without_gil([&] { return host::make_shared_resource({.read_only_for_peers = read_only_for_peers}); });
      },
      nb::kw_only(), nb::arg("read_only_for_peers") = false,
      nb::sig("def make_shared_resource(*, read_only_for_peers: bool = False) -> MemoryResource"),
      "A resource of host memory that other processes can open. With `read_only_for_peers`, the kernel lets none of "
      "them "
      "ever write it.");

  m.def(
      "current_resource",
      [](std::optional<Device> device) {
        return without_gil([&] { return current_resource(device ? *device : best_device()); });
      },
      nb::arg("device").none() = nb::none(),
      nb::sig("def current_resource(device: Device | None = None) -> MemoryResource"),
      "The resource that this process agreed on for `device` (None: best_device()): a pool, until set_current_resource "
      "names another.");
  m.def(
      "set_current_resource",
      [](const Device& device, std::optional<ResourcePtr> resource) {
        return without_gil([&] { return set_current_resource(device, resource ? std::move(*resource) : nullptr); });
      },
      nb::arg("device"), nb::arg("resource").none(),
      nb::sig("def set_current_resource(device: Device, resource: MemoryResource | None) -> MemoryResource"),
      "Make `resource` the current one of `device`, None for its pool, and return the previous one.");
}

}  // namespace weir::python
