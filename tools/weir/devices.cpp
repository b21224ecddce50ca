// SPDX-License-Identifier: Apache-2.0
// weir devices: what is on this machine, and what each kind of memory can do.

#include <cstdio>
#include <exception>
#include <iterator>
#include <optional>
#include <string>

#include "commands.hpp"
#include "json.hpp"
#include "labels.hpp"
#include "table.hpp"
#include "weir/dlpack.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/view.hpp"
#include "weir/version.hpp"
#include "weir/weir.hpp"

namespace weir::cli {
namespace {

std::string mark(bool yes) { return yes ? "yes" : "-"; }

/// What a tensor in such memory is for other frameworks. Vulkan's memory has no addresses for them, unless another
/// backend has the same GPU.
std::string as_dlpack(const Device& device, const KindInfo& kind) {
  if (kind.host_accessible || device.backend() != "vulkan") return std::string{dlpack_device_name(kind.dlpack_device)};
  auto* const viewer = kind.exportable ? spi::viewer_of(device.state()) : nullptr;
  if (!viewer) return "-";
  return std::string{dlpack_device_name(Device(*viewer).find(viewer->default_kind)->dlpack_device)} + ", if exportable";
}

std::string kinds_of(const Device& device) {
  Table table{{"memory", "host", "device", "other processes", "as DLPack"}};
  for (const KindInfo& kind : device.kinds()) {
    const bool usual = kind.kind == device.default_kind();
    table.add({std::string{to_string(kind.kind)} + (usual ? " *" : ""), mark(kind.host_accessible),
               mark(kind.device_accessible), mark(kind.exportable), as_dlpack(device, kind)});
  }
  return table.text(2);
}

/// What is left of the device's memory at this moment. Only a device that says so without being opened is asked.
std::optional<std::size_t> free_memory(const Device& device) {
  try {
    return make_resource(device)->stats().device_free;
  } catch (const std::exception&) {
    return {};  // what is wrong with the device is shown where something is asked of it
  }
}

void print_device(const Device& device) {
  const std::string total = size_text(device.total_memory());
  const std::string memory = device.total_memory() > 0 ? ", " + total : "";
  std::printf("%s  %s (%s%s)\n", device.id().c_str(), std::string{device.name()}.c_str(),
              device.is_gpu() ? "GPU" : "CPU", memory.c_str());
  std::printf("  uuid    %s\n  driver  %s\n", device.uuid().to_string().c_str(), std::string{device.driver()}.c_str());
  if (const auto free = free_memory(device))
    std::printf("  memory  %s, of which %s may be used now\n", total.c_str(), size_text(*free).c_str());
  std::fputs(kinds_of(device).c_str(), stdout);
  std::putchar('\n');
}

void write_kind(Json& json, const KindInfo& kind) {
  json.open('{')
      .pair("kind", to_string(kind.kind))
      .pair("host_accessible", kind.host_accessible)
      .pair("device_accessible", kind.device_accessible)
      .pair("exportable", kind.exportable)
      .pair("alignment", kind.alignment)
      .pair("granularity", kind.granularity)
      .pair("dlpack_device", kind.dlpack_device)
      .close('}');
}

void write_device(Json& json, const Device& device) {
  json.open('{')
      .pair("id", device.id())
      .pair("backend", device.backend())
      .pair("ordinal", device.ordinal())
      .pair("name", device.name())
      .pair("driver", device.driver())
      .pair("uuid", device.uuid().to_string())
      .pair("is_gpu", device.is_gpu())
      .pair("total_memory", device.total_memory())
      .key("free_memory");
  const auto free = free_memory(device);
  (free ? json.value(*free) : json.null())
      .pair("default_kind", to_string(device.default_kind()))
      .key("kinds")
      .open('[');
  for (const KindInfo& kind : device.kinds()) write_kind(json, kind);
  json.close(']').close('}');
}

int print_json(const std::vector<BackendInfo>& all) {
  Json json;
  json.open('{').pair("version", WEIR_VERSION_STRING).key("backends").open('[');
  for (const BackendInfo& backend : all) {
    json.open('{').pair("name", backend.name).key("unavailable_because");
    if (backend.devices.empty())
      json.value(backend.unavailable_because);
    else
      json.null();
    json.key("devices").open('[');
    for (const Device& device : backend.devices) write_device(json, device);
    json.close(']').close('}');
  }
  json.close(']').close('}');
  return std::puts(json.text().c_str()) < 0;
}

}  // namespace

int devices(bool json) {
  const std::vector<BackendInfo> all = backends();
  if (json) return print_json(all);
  for (const Device& device : weir::devices()) print_device(device);
  for (const BackendInfo& backend : all)
    if (backend.devices.empty())
      std::printf("%s  not available: %s\n", backend.name.c_str(), backend.unavailable_because.c_str());
  std::printf("* what a program gets that names no kind; the best device is %s\n", best_device().id().c_str());
  return 0;
}

}  // namespace weir::cli
