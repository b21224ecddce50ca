// SPDX-License-Identifier: Apache-2.0
// What an allocation from a pool and its close cost, beside malloc and the plain resources of the same memory.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weir/weir.hpp"

namespace {

using namespace weir;

constexpr std::size_t kib = 1024, mib = 1024 * kib;

/// The kind that a pool of this device stands on.
MemoryKind kind_of(const Device& device) {
  for (const KindInfo& info : device.kinds()) {
    if (info.paged) return info.kind;
  }
  return device.default_kind();
}

PoolPtr pool_on(const Device& device) {
  return make_pool(make_resource(device, kind_of(device)), {.segment_bytes = 128 * mib});
}

void pair(benchmark::State& state, const ResourcePtr& resource) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Stream stream(resource->device());
  for (auto _ : state) benchmark::DoNotOptimize(resource->allocate(bytes, stream));
}

// 1 000 buffers live, of 256 bytes to 512 KiB; one of them at random is closed and another allocated.
void churn(benchmark::State& state, const ResourcePtr& resource) {
  constexpr std::size_t live = 1000, choices = 1 << 16;
  const Stream stream(resource->device());
  std::mt19937 random(1);
  std::vector<std::uint32_t> which(choices), bytes(choices);
  for (auto& each : which) each = static_cast<std::uint32_t>(random() % live);
  for (auto& each : bytes) each = 256U << (random() % 12);
  std::vector<Buffer> buffers(live);
  for (std::size_t i = 0; i < 4 * choices; ++i) {
    buffers[which[i % choices]] = resource->allocate(bytes[(i * 7) % choices], stream);
  }
  std::size_t i = 0;
  for (auto _ : state) {
    Buffer& buffer = buffers[which[i % choices]];
    buffer = Buffer();
    buffer = resource->allocate(bytes[(i * 7) % choices], stream);
    ++i;
  }
}

// Allocated for one stream, closed on another that uses it last.
void close_elsewhere(benchmark::State& state, const ResourcePtr& resource) {
  const Stream stream(resource->device()), other(resource->device());
  for (auto _ : state) resource->allocate(4 * kib, stream).close(other);
}

// Each thread on its own stream, or all on one.
void threads(benchmark::State& state, const ResourcePtr& resource, const std::optional<Stream>& shared) {
  const Stream stream = shared ? *shared : Stream(resource->device());
  for (auto _ : state) benchmark::DoNotOptimize(resource->allocate(4 * kib, stream));
  state.SetItemsProcessed(state.iterations());
}

void malloc_and_free(benchmark::State& state) {
  for (auto _ : state) {
    void* memory = std::malloc(static_cast<std::size_t>(state.range(0)));
    benchmark::DoNotOptimize(memory);
    std::free(memory);
  }
}

void add(const Device& device) {
  const std::string name(device.backend());
  const ResourcePtr pool = pool_on(device);
  for (const auto& [label, resource] :
       {std::pair(pool->name(), pool), std::pair(std::string("plain"), make_resource(device))}) {
    auto* pairs = benchmark::RegisterBenchmark((name + "/pair/" + label).c_str(), pair, resource);
    pairs->Arg(256)->Arg(4 * kib)->Arg(mib)->Arg(64 * mib);
  }
  benchmark::RegisterBenchmark((name + "/churn/" + pool->name()).c_str(), churn, pool);
  benchmark::RegisterBenchmark((name + "/close_elsewhere/" + pool->name()).c_str(), close_elsewhere, pool);
  const auto most = static_cast<int>(std::min(16U, std::thread::hardware_concurrency()));
  benchmark::RegisterBenchmark((name + "/threads/own_streams").c_str(), threads, pool, std::nullopt)
      ->ThreadRange(1, most)
      ->UseRealTime();
  benchmark::RegisterBenchmark((name + "/threads/one_stream").c_str(), threads, pool, Stream(device))
      ->ThreadRange(1, most)
      ->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RegisterBenchmark("malloc", malloc_and_free)->Arg(256)->Arg(4096);
  for (const BackendInfo& backend : backends()) {
    if (!backend.devices.empty()) add(backend.devices.front());
  }
  benchmark::RunSpecifiedBenchmarks();
}
