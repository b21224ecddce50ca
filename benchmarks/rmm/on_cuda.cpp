// SPDX-License-Identifier: Apache-2.0
// RMM's benchmarks through RMM's interface: weir's pool beside the resources of RMM.
// pair/SIZE, threads/…: as for a pool. random/COUNT/SIZE: RMM's random-allocation benchmark with other sizes.
// random-new/COUNT/SIZE: makes a new resource and does the same with it, in the time of both. streams/warm,
// streams/cold: RMM's multi-stream benchmark.
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "peers/cuda/kernel.hpp"
#include "pool/pairs.hpp"
#include "pool/random.hpp"
#include "pool/streams.hpp"
#include "pool/threads.hpp"
#include "rmm/through_rmm.hpp"
#include "support/suite.hpp"
#include "weir/interop/cccl.hpp"

namespace weir::bench {
namespace {

using Made = std::shared_ptr<ThroughRmm>;

Made make_weir(const Device& device, std::size_t ready) {
  return std::make_shared<ThroughRmm>(cccl::DeviceResource(make_pool(device, {.initial_bytes = ready})));
}
rmm::mr::pool_memory_resource make_rmm_pool(std::size_t ready) {
  return rmm::mr::pool_memory_resource(rmm::mr::cuda_memory_resource(), ready);
}
Made make_pool_of_rmm(std::size_t ready) { return std::make_shared<ThroughRmm>(make_rmm_pool(ready)); }
/// By default, an arena takes half of the device's free memory at once, and never more.
Made make_arena(std::size_t /*ready*/) {
  return std::make_shared<ThroughRmm>(rmm::mr::arena_memory_resource(rmm::mr::cuda_memory_resource()));
}
/// With RMM's own bins: 256 KiB to 4 MiB.
Made make_binning(std::size_t ready) {
  return std::make_shared<ThroughRmm>(rmm::mr::binning_memory_resource(make_rmm_pool(ready), 18, 22));
}
Made make_async(std::size_t ready) { return std::make_shared<ThroughRmm>(rmm::mr::cuda_async_memory_resource(ready)); }

using Random = std::pair<std::size_t, std::size_t>;  // allocations, and the most bytes of one
constexpr Random randoms[] = {{1000, 64 * mib}, {10'000, 64 * mib}, {1000, 4096 * mib}};

void add_all(const Subject<ThroughRmm>& subject, const Device& device) {
  add_pairs(subject);
  add_threads(subject);
  add_random(subject, device);
  for (const auto& [count, most_bytes] : randoms) {
    if (16 * most_bytes >= device.total_memory()) continue;  // too large for what is live at a time
    const std::string what = std::to_string(count) + '/' + size_name(most_bytes);
    add_random(subject, device, "random/" + what, count, most_bytes);
    add_random_new(subject, device, "random-new/" + what, count, most_bytes);
  }
  const Work<ThroughRmm> run = [](ThroughRmm::Held& held, const ThroughRmm::Stream& stream) {
    make_cuda_current();
    launch_busy_kernel(stream.get(), reinterpret_cast<CUdeviceptr>(held.address));
  };
  add_streams(subject, 8, run, "kernels of a million clocks", {"warm", "cold"});
}

const Suite suite("cuda", [](const Device& device) {
  const std::string backend = "cuda/rmm";
  add_all({backend, "weir", [device](std::size_t ready) { return make_weir(device, ready); }}, device);
  // With 100 000 allocations a round takes the pool 9 s, and the arena 28 s.
  add_all({backend, "RMM pool", make_pool_of_rmm, false, 10'000}, device);
  add_all({backend, "RMM arena", make_arena, false, 10'000}, device);
  add_all({backend, "RMM binning", make_binning}, device);
  add_all({backend, "RMM async", make_async}, device);
});

}  // namespace
}  // namespace weir::bench
