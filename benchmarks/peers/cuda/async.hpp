// SPDX-License-Identifier: Apache-2.0
#pragma once
// cuMemAllocAsync and cuMemFreeAsync: the allocator of the CUDA driver.

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "driver.hpp"
#include "support/allocator.hpp"

namespace weir::bench {

class CudaAsync {
 public:
  using Stream = std::shared_ptr<CUstream_st>;
  using Held = CUdeviceptr;

  enum class Use {
    tuned,  ///< a pool of its own that keeps all memory, as NVIDIA's guide says: release threshold UINT64_MAX
    as_delivered,  ///< the device's default pool as it is
  };
  /// With `ready` bytes in the pool at once, if it keeps any.
  CudaAsync(Use use, std::size_t ready);
  CudaAsync(const CudaAsync&) = delete;
  CudaAsync& operator=(const CudaAsync&) = delete;
  ~CudaAsync();  ///< after everything was freed

  [[nodiscard]] Stream stream() const { return make_cuda_stream(); }
  [[nodiscard]] Held allocate(std::size_t bytes, const Stream& stream) const {
    CUdeviceptr address = 0;
    const auto result = pool_ ? driver_.MemAllocFromPoolAsync(&address, bytes, pool_, stream.get())
                              : driver_.MemAllocAsync(&address, bytes, stream.get());
    if (result != CUDA_SUCCESS) [[unlikely]]
      must(result, pool_ ? "cuMemAllocFromPoolAsync" : "cuMemAllocAsync");
    return address;
  }
  void free(Held& held, const Stream& stream) const {
    if (held == 0) return;
    const auto result = driver_.MemFreeAsync(std::exchange(held, 0), stream.get());
    if (result != CUDA_SUCCESS) [[unlikely]]
      must(result, "cuMemFreeAsync");
  }
  void pair(std::size_t bytes, const Stream& stream) const {
    Held held = allocate(bytes, stream);
    free(held, stream);
  }
  void free_on(Held& held, const Stream& other) const { free(held, other); }
  void call(const Stream& stream, std::function<void()> function) const;
  void synchronize(const Stream& stream) const { synchronize_cuda(stream.get()); }

 private:
  const CudaDriver& driver_;
  CUmemoryPool pool_ = nullptr;
};
static_assert(Ordered<CudaAsync>);

[[nodiscard]] Subject<CudaAsync> cuda_async(CudaAsync::Use use);

}  // namespace weir::bench
