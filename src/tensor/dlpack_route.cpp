// SPDX-License-Identifier: Apache-2.0
// As memory of which device an export shows a buffer, and whether that takes a copy.
#include <dlpack/dlpack.h>

#include <optional>
#include <string>

#include "copy/checks.hpp"
#include "tensor/dlpack_devices.hpp"
#include "weir/dlpack.hpp"
#include "weir/error.hpp"
#include "weir/host.hpp"
#include "weir/memory_resource.hpp"
#include "weir/spi/backend.hpp"
#include "weir/spi/block.hpp"
#include "weir/spi/device_state.hpp"
#include "weir/spi/dlpack.hpp"
#include "weir/spi/stream_state.hpp"
#include "weir/spi/view.hpp"

namespace weir {
namespace {

constexpr DlpackDevice cpu{kDLCPU, 0};

// "CUDA (2, 0)"
std::string text_of(DlpackDevice device) {
  const std::string number = "(" + std::to_string(device.type) + ", " + std::to_string(device.id) + ")";
  const auto name = dlpack_device_name(device.type);
  return name.empty() ? "device " + number : std::string(name) + " " + number;
}

[[noreturn]] void refuse(const Buffer& buffer, DlpackDevice own, DlpackDevice wanted, const char* advice) {
  throw Error(Errc::incompatible, "DLPack: " + std::string(to_string(buffer.kind())) + " memory of " +
                                      buffer.device().id() + ", which is " + text_of(own) + ", cannot be exported as " +
                                      text_of(wanted) + advice);
}

// Return the device of another backend that has views of the buffer's memory, as a tensor names it.
std::optional<DlpackDevice> device_of_view(const Buffer& buffer, const spi::Segment* segment) {
  const bool viewable = segment ? segment->viewable : buffer.memory_resource()->is_exportable();
  if (!viewable) return std::nullopt;
  const spi::DeviceState* const viewer = spi::viewer_of(segment ? *segment->device : buffer.device().state());
  const auto* const type = viewer ? detail::find_dlpack_device_type(viewer->backend->name) : nullptr;
  return type ? std::optional(DlpackDevice{type->type, viewer->ordinal}) : std::nullopt;
}

}  // namespace

spi::DeviceState* detail::find_dlpack_viewer(DlpackDevice device, const spi::DeviceState& owner) {
  const auto* const type = find_dlpack_device_type(device.type);
  if (!type || type != find_dlpack_device_type(type->backend)) return nullptr;
  spi::DeviceState* const viewer = spi::viewer_of(owner, type->backend);
  return viewer && viewer->ordinal == device.id ? viewer : nullptr;
}

detail::KnownDlpackDevice detail::find_own_dlpack_device(const Buffer& buffer, const spi::Segment* segment) {
  std::int32_t type = segment ? segment->dlpack_device : 0;
  if (type == 0) {
    const KindInfo* const info = buffer.device().find(buffer.kind());
    type = info ? info->dlpack_device : std::int32_t{kDLCPU};
  }
  const auto* const known = find_dlpack_device_type(type);
  if (known && known->address == DlpackDeviceType::Address::none) {
    if (const auto seen = device_of_view(buffer, segment)) return {*seen, find_dlpack_device_type(seen->type)};
  }
  return {{type, known && known->numbered ? buffer.device().ordinal() : 0}, known};
}

DlpackDevice dlpack_device(const Buffer& buffer) {
  return detail::own_dlpack_device(buffer, buffer.location().segment).device;
}

std::string_view dlpack_device_name(std::int32_t type) noexcept {
  const auto* const known = detail::find_dlpack_device_type(type);
  return known ? known->name : std::string_view{};
}

namespace spi {

DlpackRoute dlpack_route(const Buffer& buffer, const DlpackOptions& options) {
  const auto opened = detail::open_operand("Tensor::to_dlpack", buffer);
  const Segment* const segment = opened.block->segment;
  const auto [own, type] = detail::own_dlpack_device(buffer, segment);
  if (!options.device) return {own, options.copy == DlpackCopy::always, false};
  DlpackRoute route{*options.device, options.copy == DlpackCopy::always, false};
  if (route.device == own) return route;
  const bool from_host = segment ? segment->host_accessible() : buffer.is_host_accessible();
  if (route.device == cpu) {
    route.to_host = route.copies || !from_host;
    route.copies = route.to_host;
    if (options.copy == DlpackCopy::never && route.copies)
      refuse(buffer, own, cpu, " without a copy, because the host cannot reach it");
    return route;
  }
  const Device device = buffer.device();
  const bool same_gpu = type && type->backend == "cuda" && route.device == DlpackDevice{kDLCUDA, device.ordinal()};
  if ((same_gpu && buffer.is_device_accessible()) || device_of_view(buffer, segment) == route.device) return route;
  const bool needs_export = segment && !segment->exportable && detail::find_dlpack_viewer(route.device, device.state());
  refuse(buffer, own, route.device,
         needs_export ? "; make its resource exportable, or copy it to a buffer of that device first"
                      : "; copy it to a buffer of that device first");
}

// The copy keeps its allocation stream for as long as it is there, and a consumer may destroy its own before.
Tensor dlpack_copy(const Tensor& tensor, const DlpackRoute& route, const Stream& consumer) {
  const Buffer& source = tensor.buffer();
  const bool apart = static_cast<bool>(consumer.state().stand_in());
  const Stream stream = apart ? Stream(consumer.device()) : consumer;
  if (apart) stream.wait(consumer.record());  // it may have used the memory through earlier exports
  Layout layout = Layout::compact(tensor.layout().dtype, tensor.layout().shape);
  const ResourcePtr resource = route.to_host ? host::make_pageable_resource() : source.memory_resource();
  Buffer memory = resource->allocate(layout.bytes_needed(), stream);
  Tensor copy(std::move(memory), std::move(layout));
  source.order_after_uses(stream);
  tensor.copy_to(copy, stream);
  return copy;
}

}  // namespace spi
}  // namespace weir
