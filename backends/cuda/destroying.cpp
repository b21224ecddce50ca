// SPDX-License-Identifier: Apache-2.0
#include "destroying.hpp"

#include <mutex>

namespace weir::cuda {
namespace {

constinit std::mutex one_at_a_time;  // both calls return without waiting

}  // namespace

void see_if_idle(CUstream stream) noexcept {
  if (driver().StreamQuery(stream) == CUDA_SUCCESS) (void)driver().StreamSynchronize(stream);
}

CUresult destroy_stream(CUstream stream) noexcept {
  const std::scoped_lock lock(one_at_a_time);
  return driver().StreamDestroy(stream);
}

CUresult destroy_pool(CUmemoryPool pool) noexcept {
  const std::scoped_lock lock(one_at_a_time);
  return driver().MemPoolDestroy(pool);
}

}  // namespace weir::cuda
