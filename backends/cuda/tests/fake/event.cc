// SPDX-License-Identifier: Apache-2.0
// Events.
#include "world.hpp"

#include <algorithm>

using namespace fake;

extern "C" {

CUresult CUDAAPI cuStreamWaitEvent(CUstream on, CUevent handle, unsigned int) {
  ENTER("cuStreamWaitEvent");
  STREAM(on);
  const auto progress = reinterpret_cast<Event*>(handle)->progress;
  push(stream, [progress, wanted = progress->recorded] {
    Lock inner(lock_of_all());
    changed().wait(inner, [&] { return progress->completed >= wanted; });
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned int) {
  ENTER("cuEventCreate");
  NEED_CONTEXT();
  *event = reinterpret_cast<CUevent>(new Event{here().current.back(), std::make_shared<Progress>()});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventDestroy(CUevent event) {
  ENTER("cuEventDestroy");
  delete reinterpret_cast<Event*>(event);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream on) {
  ENTER("cuEventRecord");
  STREAM(on);
  auto* event = reinterpret_cast<Event*>(handle);
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  const auto value = ++event->progress->recorded;
  push(stream, [progress = event->progress, value] {
    const Lock inner(lock_of_all());
    progress->completed = std::max(progress->completed, value);
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventQuery(CUevent handle) {
  ENTER("cuEventQuery");
  UNSAFE();
  const auto& progress = *reinterpret_cast<Event*>(handle)->progress;
  return progress.completed >= progress.recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
  ENTER("cuEventSynchronize");
  UNSAFE();
  const auto progress = reinterpret_cast<Event*>(handle)->progress;
  changed().wait(lock, [&, wanted = progress->recorded] { return progress->completed >= wanted; });
  return CUDA_SUCCESS;
}

}  // extern "C"
