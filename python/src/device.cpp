// SPDX-License-Identifier: Apache-2.0
// Devices, backends and kinds of memory.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bind.hpp"

namespace weir::python {
namespace {

void bind_kinds(nb::module_& m) {
  nb::enum_<MemoryKind> kinds(m, "MemoryKind", "Kinds of memory, across backends.");
  for (std::uint8_t i = 0; is_memory_kind(i); ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    const auto [name, about] = detail::text_of(kind);  // literals, which end with a zero
    kinds.value(kind == MemoryKind::async ? "async_" : name.data(), kind, about.data());  // async is a keyword there
  }

  nb::class_<KindInfo>(m, "KindInfo", "What one kind of memory on one device can do.")
      .def_ro("kind", &KindInfo::kind)
      .def_ro("host_accessible", &KindInfo::host_accessible)
      .def_ro("device_accessible", &KindInfo::device_accessible)
      .def_ro("exportable", &KindInfo::exportable)
      .def_ro("alignment", &KindInfo::alignment)
      .def_ro("granularity", &KindInfo::granularity)
      .def_ro("dlpack_device", &KindInfo::dlpack_device, "DLDeviceType of tensors in it")
      .def("__repr__", [](const KindInfo& k) {
        std::string text = "<weir.KindInfo " + std::string{to_string(k.kind)};
        if (k.host_accessible) text += " host";
        if (k.device_accessible) text += " device";
        if (k.exportable) text += " exportable";
        return text + ">";
      });
}

}  // namespace

void bind_devices(nb::module_& m) {
  bind_kinds(m);
  nb::class_<Device>(m, "Device", "Names one device of one backend. A value.")
      .def_prop_ro("id", &Device::id, "for example 'cuda:0'; accepted by weir.device()")
      .def_prop_ro("backend", &Device::backend)
      .def_prop_ro("ordinal", &Device::ordinal)
      .def_prop_ro("name", &Device::name)
      .def_prop_ro("driver", &Device::driver)
      .def_prop_ro(
          "uuid", [](const Device& d) { return d.uuid().to_string(); },
          "equal for the CUDA and Vulkan views of one GPU")
      .def_prop_ro("is_gpu", &Device::is_gpu)
      .def_prop_ro("total_memory", &Device::total_memory, "bytes; 0 when unknown")
      .def_prop_ro("kinds", [](const Device& d) { return std::vector<KindInfo>(d.kinds().begin(), d.kinds().end()); })
      .def_prop_ro("default_kind", &Device::default_kind)
      .def(
          "find",
          [](const Device& d, MemoryKind kind) -> std::optional<KindInfo> {
            const KindInfo* info = d.find(kind);
            return info ? std::optional{*info} : std::nullopt;
          },
          nb::arg("kind"), "KindInfo, or None when the device has no such memory")
      .def(
          "__eq__",
          [](const Device& a, nb::handle b) { return nb::isinstance<Device>(b) && a == nb::cast<const Device&>(b); },
          nb::arg("other").none())
      .def("__hash__", [](const Device& d) { return std::hash<std::string>{}(d.id()); })
      .def("__repr__", [](const Device& d) { return "<weir.Device '" + d.id() + "' " + std::string{d.name()} + ">"; });

  nb::class_<BackendInfo>(m, "BackendInfo", "One backend of this build.")
      .def_ro("name", &BackendInfo::name)
      .def_ro("devices", &BackendInfo::devices)
      .def_ro("unavailable_because", &BackendInfo::unavailable_because, "one line; empty when there are devices")
      .def("__repr__", [](const BackendInfo& b) {
        return "<weir.BackendInfo '" + b.name + "' " + std::to_string(b.devices.size()) + " devices>";
      });

  m.def("backends", &backends, nb::call_guard<WithoutGil>(), "Every backend of this build.");
  m.def("devices", &devices, nb::call_guard<WithoutGil>(),
        "Every device of every backend: cuda, then vulkan, then host.");
  m.def("host_device", &host_device, "The host. Never touches a GPU driver.");
  m.def(
      "device", [](const std::string& id) { return without_gil([&] { return device(id); }); }, nb::arg("id"),
      "The device named 'backend' or 'backend:ordinal'.");
  m.def("best_device", &best_device, nb::call_guard<WithoutGil>(),
        "WEIR_DEVICE if set, else a CUDA device, else a GPU of Vulkan, else the host, else a CPU driver of Vulkan.");
}

}  // namespace weir::python
