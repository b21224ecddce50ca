// SPDX-License-Identifier: Apache-2.0
// allocator/pair: 4 KiB by their address in the order of a CUstream.
#include <string>

#include "support/row.hpp"
#include "support/suite.hpp"
#include "weir/cuda.hpp"
#include "weir/interop/cuda_allocator.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

const Suite suite("cuda", [](const Device& device) {
  add_row("cuda/allocator/pair/weir", [device](benchmark::State& state) {
    const Stream stream(device);
    CUstream_st* const native = cuda::native(stream);
    cuda::Allocator memory(make_pool(device));
    for (auto _ : state) {
      void* address = memory.allocate(native, 4 * kib);
      benchmark::DoNotOptimize(address);
      memory.deallocate(native, address);
    }
  });
});

}  // namespace
}  // namespace weir::bench
