// SPDX-License-Identifier: Apache-2.0
// Moving managed memory, and where it was moved last.
#include "world.hpp"

using namespace fake;

extern "C" {

CUresult CUDAAPI fake_cuMemPrefetchAsync(CUdeviceptr at, size_t bytes, CUdevice to, CUstream on) {
  ENTER_TO_WORK("cuMemPrefetchAsync");
  STREAM(on);
  if (bytes == 0) return violation(call, "nothing to move");
  const auto devices = static_cast<CUdevice>(world().primaries.size());
  if (to != CU_DEVICE_CPU && (to < 0 || to >= devices)) {
    return violation(call, "to device " + std::to_string(to) + ", which is not there", CUDA_ERROR_INVALID_DEVICE);
  }
  Job job;
  job.call = call;
  if (const auto refused = touch(call, *stream->context, at, bytes, false, job.uses)) return refused;
  for (const Use& use : job.uses) {
    if (!use.memory->managed) return violation(call, hex(at) + " is not managed memory");
  }
  job.after = [memory = job.uses.front().memory, to](Stream&) { memory->moved_to = to; };
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRangeGetAttribute(void* data, size_t size, CUmem_range_attribute attribute, CUdeviceptr at,
                                        size_t bytes) {
  ENTER("cuMemRangeGetAttribute");
  const auto memory = memory_at(at);
  if (!memory || !memory->managed || bytes > memory->size - (at - memory->address)) {
    return violation(call, "not a range of managed memory");
  }
  if (attribute != CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION || size != sizeof(int)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *static_cast<int*>(data) = memory->moved_to;
  return CUDA_SUCCESS;
}

}  // extern "C"
