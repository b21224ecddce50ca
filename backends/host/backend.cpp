// SPDX-License-Identifier: Apache-2.0
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <fstream>

#include "memfd.hpp"
#include "segment.hpp"
#include "stream.hpp"
#include "weir/host.hpp"
#include "weir/spi/resources.hpp"

namespace weir::host {
namespace {

// Return the kernel's boot id. Two processes that read the same id share this memory.
Uuid boot_id() {
  Uuid uuid;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string digits;
  for (char c; file.get(c) && digits.size() < 32;) {
    if (c != '-') digits += c;
  }
  for (std::size_t i = 0; i < uuid.bytes.size() && 2 * i + 1 < digits.size(); ++i) {
    uuid.bytes[i] = static_cast<std::uint8_t>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
  return uuid;
}

KindInfo kind(MemoryKind memory_kind, bool exportable, std::size_t alignment) {
  KindInfo info;
  info.kind = memory_kind;
  info.host_accessible = true;
  info.exportable = exportable;
  info.alignment = info.granularity = alignment;
  info.dlpack_device = dlpack_cpu;
  return info;
}

extern const spi::Backend table;

spi::DeviceState* make_host() {
  auto* device = new spi::DeviceState;
  device->backend = &table;
  device->uuid = boot_id();
  device->name = "host memory";
  struct utsname system {};
  if (::uname(&system) == 0) device->driver = std::string(system.sysname) + " " + system.release;
  struct sysinfo info {};
  if (::sysinfo(&info) == 0) device->total_memory = (info.totalram + info.totalswap) * info.mem_unit;
  device->kinds = {kind(MemoryKind::pageable, false, default_alignment), kind(MemoryKind::shared, true, page_size())};
  device->default_kind = device->staging_kind = MemoryKind::pageable;
  return device;
}

std::vector<spi::DeviceState*> devices(std::string& /*reason*/) noexcept { return {make_host()}; }

const spi::SegmentOps segments{.reserve = reserve,
                               .export_handle = export_handle,
                               .export_to_readers = export_to_readers,
                               .imports = imports,
                               .import_handle = import_handle,
                               .wrap = wrap};
const spi::StreamOps streams{.create = create_stream, .reaches = reaches};
const spi::Backend table{.name = "host",
                         .rank = 0,
                         .devices = devices,
                         .segments = &segments,
                         .streams = &streams,
                         .survives_fork = true};

}  // namespace

const spi::Backend* backend() noexcept { return &table; }

ResourcePtr make_pageable_resource(const PageableOptions& options) {
  return spi::make_segment_resource(host_device().state(), MemoryKind::pageable, false,
                                    options.huge_pages ? huge_pages : 0);
}

ResourcePtr make_shared_resource(const SharedOptions& options) {
  return spi::make_segment_resource(host_device().state(), MemoryKind::shared, true,
                                    options.read_only_for_peers ? read_only_for_peers : 0);
}

}  // namespace weir::host
