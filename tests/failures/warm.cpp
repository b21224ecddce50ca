// SPDX-License-Identifier: Apache-2.0
#include "warm.hpp"

#include <ostream>
#include <utility>

#include "weir/dlpack.hpp"

namespace weir::test {
namespace {

constexpr std::size_t sizes[] = {1, 256, 257, 5000, 100'000, 1'000'000, 3 << 20};
constexpr std::size_t rounds = 200, most = 32;

void one_stream(WarmPool& warm) {
  for (std::size_t i = 0; i < rounds; ++i) {
    for (const std::size_t bytes : sizes) warm.pool->allocate(bytes, warm.stream).close();
  }
}

// Buffers live on while others come and go, each the same way every time.
void churn(WarmPool& warm) {
  for (std::size_t i = 0; i < 10 * rounds; ++i) {
    Buffer& slot = warm.window[i * 7 % most];
    slot = {};
    slot = *warm.pool->try_allocate(sizes[i % std::size(sizes)], warm.stream);
  }
  for (Buffer& buffer : warm.window) buffer.close();
}

void two_streams(WarmPool& warm) {
  for (std::size_t i = 0; i < rounds; ++i) {
    for (const std::size_t bytes : sizes) {
      Buffer one = warm.pool->allocate(bytes, warm.stream), two = warm.pool->allocate(bytes, warm.other);
      one.close();
      two.close(warm.other);
    }
  }
}

void many_owners(WarmPool& warm) {
  for (std::size_t i = 0; i < rounds; ++i) {
    Buffer buffer = warm.pool->allocate(5000, warm.stream);
    const Buffer shared = buffer.share(), part = buffer.slice(256, 512);
    buffer.use_on(warm.stream);
    Buffer moved = std::move(buffer);
    moved.close(warm.stream);
  }
}

// To a consumer on the stream of the memory. Vulkan's memory goes to no framework.
void exports(WarmPool& warm) {
  if (!warm.tensor) warm.tensor = warm.pool->allocate(4096, warm.stream).view(f32, {2, 4, 8, 16});
  constexpr std::int32_t vulkan = 7;  // kDLVulkan
  if (dlpack_device(warm.tensor->buffer()).type == vulkan) return;
  for (std::size_t i = 0; i < rounds; ++i) {
    const ManagedTensor one = warm.tensor->to_dlpack(warm.stream), two = warm.tensor->to_dlpack(warm.stream);
    (void)warm.tensor->to_dlpack(warm.stream);
  }
}

constexpr WarmPath paths[] = {{"one_stream", &one_stream},
                              {"churn", &churn},
                              {"two_streams", &two_streams},
                              {"many_owners", &many_owners},
                              {"exports", &exports}};

}  // namespace

WarmPool::WarmPool(ResourcePtr upstream, bool paged)
    : pool(make_pool(std::move(upstream), {.initial_bytes = std::size_t{64} << 20, .paged = paged})),
      stream(pool->device()),
      other(pool->device()),
      window(most) {}

std::span<const WarmPath> warm_paths() { return paths; }

void PrintTo(const WarmPath& path, std::ostream* out) { *out << path.name; }

void warm_up(WarmPool& warm, const WarmPath& path) {
  path.run(warm);
  path.run(warm);  // with the caches as the first left them
}

}  // namespace weir::test
