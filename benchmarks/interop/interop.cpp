// SPDX-License-Identifier: Apache-2.0
// current/get: what it costs to ask for a device's current resource.
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

void add(const Device& device) {
  const std::string backend(device.backend());
  add_row(backend + "/current/get/weir", [device](benchmark::State& state) {
    (void)current_resource(device);  // the first who asks makes it
    for (auto _ : state) benchmark::DoNotOptimize(current_resource(device));
  });
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
