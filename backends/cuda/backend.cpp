// SPDX-License-Identifier: Apache-2.0
// The backend's table, as the core sees it.
#include "weir/spi/backend.hpp"

#include <cstdlib>
#include <memory>

#include "device.hpp"
#include "ending.hpp"
#include "segment.hpp"
#include "stream.hpp"

namespace weir::cuda {

const spi::Backend* backend() noexcept;

namespace {

spi::StreamState* create_stream(spi::DeviceState& device) { return GpuStream::create(gpu_of(device)); }

// All memory of this backend is in one address space; for all other memory, the core stages the copies.
bool reaches(const spi::DeviceState& device, const spi::Segment& segment) noexcept {
  return segment.device->backend == device.backend;
}

// Managed memory can move to the host, and to devices that may use it while the host does.
bool prefetches(const spi::DeviceState& device, MemoryKind kind, const spi::DeviceState& to) noexcept {
  const bool there = to.backend == device.backend ? to.find(MemoryKind::managed) != nullptr
                                                  : to.backend == host_device().state().backend;
  return kind == MemoryKind::managed && there;
}

std::vector<spi::DeviceState*> devices(std::string& reason) {
  if (!load_driver(reason)) return {};
  int count = 0;
  check(driver().DeviceGetCount(&count), "cuDeviceGetCount");
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::string refused;
  for (int i = 0; i < count; ++i) {
    try {
      gpus.push_back(std::make_unique<Gpu>(*backend(), i));
    } catch (const Error& error) {
      refused += (refused.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  // An application that asks for one device may never notice that others are missing, so report those that were left
  // out. `reason` is read only when there are no devices.
  if (!gpus.empty() && !refused.empty()) report({{}, "cuda", "left out: " + refused});
  reason = refused;
  std::vector<spi::DeviceState*> found;
  found.reserve(gpus.size());
  for (auto& gpu : gpus) found.push_back(gpu.release());  // they live as long as the process
  if (count == 0) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    reason = "the CUDA driver shows no GPU" +
             (visible ? " (CUDA_VISIBLE_DEVICES=" + std::string(visible) + ")" : std::string());
  }
  return found;
}

// Pinned and managed memory is not, or not only, of the device.
std::optional<spi::DeviceMemory> device_memory(spi::DeviceState& device, MemoryKind kind) noexcept {
  const bool of_device = kind == MemoryKind::device || kind == MemoryKind::async || kind == MemoryKind::vmm;
  return of_device ? gpu_of(device).memory() : std::nullopt;
}

}  // namespace

const spi::Backend* backend() noexcept {
  static constexpr spi::SegmentOps segments{.reserve = reserve,
                                            .source = source,
                                            .reserve_addresses = reserve_addresses,
                                            .export_handle = export_handle,
                                            .export_to_readers = export_handle,  // see its importers' Mapping::map
                                            .imports = imports,
                                            .import_handle = import_handle,
                                            .join = join,
                                            .exports = spi::HandleKind::cuda_vmm_fd,
                                            .views = views,
                                            .open_view = open_view,
                                            .wrap = wrap,
                                            .device_memory = device_memory};
  static constexpr spi::StreamOps streams{.create = create_stream, .reaches = reaches, .prefetches = prefetches};
  static constexpr spi::Backend table{.name = "cuda",
                                      .rank = 20,
                                      .devices = devices,
                                      .segments = &segments,
                                      .streams = &streams,
                                      .ended = process_ends};
  return &table;
}

}  // namespace weir::cuda
