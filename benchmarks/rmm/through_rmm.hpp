// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory as RMM's containers get it: by address, through the interface that RMM and CCCL share, from a resource of
// RMM's or of weir's.

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <cstddef>
#include <memory>
#include <utility>

#include "peers/cuda/driver.hpp"
#include "support/allocator.hpp"

namespace weir::bench {

class ThroughRmm {
 public:
  using Resource = ::cuda::mr::any_resource<::cuda::mr::device_accessible>;
  using Stream = std::shared_ptr<CUstream_st>;
  struct Held {
    void* address = nullptr;
    std::size_t bytes = 0;
  };

  explicit ThroughRmm(Resource resource) : resource_(std::move(resource)) {}

  [[nodiscard]] Stream stream() const { return make_cuda_stream(); }
  [[nodiscard]] Held allocate(std::size_t bytes, const Stream& stream) const {
    return {resource_.allocate(::cuda::stream_ref(stream.get()), bytes, alignment), bytes};
  }
  void free(Held& held, const Stream& stream) const {
    if (!held.address) return;
    resource_.deallocate(::cuda::stream_ref(stream.get()), std::exchange(held.address, nullptr), held.bytes, alignment);
  }
  void pair(std::size_t bytes, const Stream& stream) const {
    Held held = allocate(bytes, stream);
    free(held, stream);
  }
  void synchronize(const Stream& stream) const { synchronize_cuda(stream.get()); }

 private:
  static constexpr std::size_t alignment = 256;  // RMM's default

  mutable Resource resource_;  // its functions are not const, and may be called by several threads
};
static_assert(Allocator<ThroughRmm>);

}  // namespace weir::bench
