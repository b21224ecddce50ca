// SPDX-License-Identifier: Apache-2.0
#pragma once
// malloc and free, as the C library has them. They know no streams: memory may be freed once nobody uses it.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

#include "support/allocator.hpp"

namespace weir::bench {

class Malloc {
 public:
  struct Stream {};
  using Held = void*;

  [[nodiscard]] Stream stream() const { return {}; }
  [[nodiscard]] Held allocate(std::size_t bytes, const Stream&) const {
    void* memory = std::malloc(bytes);
    if (!memory) throw std::bad_alloc();
    benchmark::DoNotOptimize(memory);
    return memory;
  }
  void free(Held& held, const Stream&) const noexcept { std::free(std::exchange(held, nullptr)); }
  void pair(std::size_t bytes, const Stream& stream) const {
    Held held = allocate(bytes, stream);
    free(held, stream);
  }
  void synchronize(const Stream&) const noexcept {}
};
static_assert(Allocator<Malloc>);

}  // namespace weir::bench
