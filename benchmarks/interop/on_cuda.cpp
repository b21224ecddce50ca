// SPDX-License-Identifier: Apache-2.0
// allocator/pair: 4 KiB by their address in the order of a CUstream.
// allocator/streams/N: the same on N streams in turn.
// allocator/threads/N: the same by N threads at once, each on a stream of its own.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "support/row.hpp"
#include "support/suite.hpp"
#include "weir/cuda.hpp"
#include "weir/interop/cuda_allocator.hpp"
#include "weir/weir.hpp"

namespace weir::bench {
namespace {

void pair(cuda::Allocator& memory, CUstream_st* stream) {
  void* address = memory.allocate(stream, 4 * kib);
  benchmark::DoNotOptimize(address);
  memory.deallocate(stream, address);
}

// The same ones for all rows: a thread of the library would still be destroying the streams of one run, by calls that
// hold up the driver, while the next run is measured.
std::vector<CUstream_st*> some_streams(const Device& device, std::size_t count) {
  static auto& streams = *new std::map<std::string, std::vector<Stream>>;  // by device
  auto& made = streams[device.id()];
  while (made.size() < count) made.emplace_back(device);
  std::vector<CUstream_st*> handles;
  for (std::size_t i = 0; i < count; ++i) handles.push_back(cuda::native(made[i]));
  return handles;
}

void in_turn(benchmark::State& state, const Device& device, std::size_t count) {
  const auto handles = some_streams(device, count);
  cuda::Allocator memory(make_pool(device));
  for (int round = 0; round < 10; ++round) {
    for (CUstream_st* handle : handles) pair(memory, handle);
  }
  std::size_t next = 0;
  for (auto _ : state) {
    pair(memory, handles[next]);
    next = next + 1 == count ? 0 : next + 1;
  }
}

void add_threads(const Device& device) {
  const int most = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  for (const int threads : std::set{1, std::min(4, most), std::min(16, most)}) {
    // Made when it is first needed: a table of rows is no reason to reserve memory.
    auto shared = std::make_shared<std::unique_ptr<cuda::Allocator>>();
    auto once = std::make_shared<std::once_flag>();
    auto& row = add_row("cuda/allocator/threads/" + std::to_string(threads) + "/weir", [=](benchmark::State& state) {
      std::call_once(*once, [&] { *shared = std::make_unique<cuda::Allocator>(make_pool(device)); });
      const Stream mine(device);
      CUstream_st* const native = cuda::native(mine);
      for (int i = 0; i < 1000; ++i) pair(**shared, native);
      for (auto _ : state) pair(**shared, native);
      state.SetItemsProcessed(state.iterations());
    });
    row.Threads(threads);
  }
}

const Suite suite("cuda", [](const Device& device) {
  add_row("cuda/allocator/pair/weir", [device](benchmark::State& state) { in_turn(state, device, 1); });
  for (const std::size_t count : {16, 64, 256, 1000}) {
    add_row("cuda/allocator/streams/" + std::to_string(count) + "/weir",
            [device, count](benchmark::State& state) { in_turn(state, device, count); });
  }
  add_threads(device);
});

}  // namespace
}  // namespace weir::bench
