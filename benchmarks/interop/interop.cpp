// SPDX-License-Identifier: Apache-2.0
// current/get: what it costs to ask for a device's current resource.
// dlpack/export: a tensor is exported and deleted, for a consumer on the stream of the memory, or elsewhere, on another
// stream with nothing pending.
// pmr/pair: 4 KiB by their address through std::pmr, over a pool of host memory.
#include <memory_resource>
#include <string>

#include "support/row.hpp"
#include "support/suite.hpp"
#include "weir/interop/pmr.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

void pairs(benchmark::State& state, std::pmr::memory_resource& memory) {
  for (auto _ : state) {
    void* address = memory.allocate(4 * kib);
    benchmark::DoNotOptimize(address);
    memory.deallocate(address, 4 * kib);
  }
}

void exports(benchmark::State& state, const Device& device, bool elsewhere) {
  const Stream home(device), other(device);
  Buffer buffer = make_pool(device)->allocate(4 * kib, home);
  const Tensor tensor = buffer.view(f32, {32, 32});
  const Stream& consumer = elsewhere ? other : home;
  for (auto _ : state) {
    const ManagedTensor made = tensor.to_dlpack(consumer);
    benchmark::DoNotOptimize(made.get());
  }
}

void add(const Device& device) {
  const std::string backend(device.backend());
  add_row(backend + "/current/get/weir", [device](benchmark::State& state) {
    (void)current_resource(device);  // the first who asks makes it
    for (auto _ : state) benchmark::DoNotOptimize(current_resource(device));
  });
  constexpr int vulkan_memory = 7;  // DLPack's kDLVulkan, which is not exported
  if (device.find(device.default_kind())->dlpack_device != vulkan_memory) {
    add_row(backend + "/dlpack/export/weir", [device](benchmark::State& state) { exports(state, device, false); });
    add_row(backend + "/dlpack/export elsewhere/weir",
            [device](benchmark::State& state) { exports(state, device, true); });
  }
  if (device != host_device()) return;
  add_row(backend + "/pmr/pair/weir", [device](benchmark::State& state) {
    PmrResource memory(make_pool(device));
    pairs(state, memory);
  });
  add_row(backend + "/pmr/pair/new_delete_resource",
          [](benchmark::State& state) { pairs(state, *std::pmr::new_delete_resource()); });
}

const Suite suite("", add);

}  // namespace
}  // namespace weir::bench
