// SPDX-License-Identifier: Apache-2.0
#include "side_stream.hpp"

#include <algorithm>

#include "context_scope.hpp"
#include "destroying.hpp"
#include "device.hpp"

namespace weir::cuda {

SideStream::SideStream(Gpu& gpu) : gpu_(gpu) {
  const ContextScope scope(gpu.context());
  check(driver().StreamCreate(&handle_, CU_STREAM_NON_BLOCKING), "cuStreamCreate", gpu);
}

SideStream::~SideStream() {
  const ReleaseScope scope(gpu_.context(), gpu_);
  if (scope) report_failure(destroy_stream(handle_), "cuStreamDestroy", gpu_);
}

bool SideStream::is_busy() const noexcept {
  const ReleaseScope scope(gpu_.context(), gpu_);
  return !scope || driver().StreamQuery(handle_) == CUDA_ERROR_NOT_READY;
}

void SideStream::synchronize() const noexcept {
  const ReleaseScope scope(gpu_.context(), gpu_);
  if (scope) report_failure(driver().StreamSynchronize(handle_), "cuStreamSynchronize", gpu_);
}

SideStream& SideStreams::on(Gpu& gpu) {
  const std::scoped_lock lock(mutex_);
  const auto found =
      std::find_if(streams_.begin(), streams_.end(), [&](const SideStream& one) { return &one.gpu() == &gpu; });
  return found != streams_.end() ? *found : streams_.emplace_back(gpu);
}

bool SideStreams::are_busy() noexcept {
  const std::scoped_lock lock(mutex_);
  return std::any_of(streams_.begin(), streams_.end(), [](const SideStream& one) { return one.is_busy(); });
}

}  // namespace weir::cuda
