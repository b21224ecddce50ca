// SPDX-License-Identifier: Apache-2.0
// Host functions, waits for values, and the one kernel: it spins until the word that its argument points to is set.
#include "world.hpp"

#include <atomic>
#include <chrono>
#include <thread>

using namespace fake;

extern "C" {

CUresult CUDAAPI cuStreamWaitValue64(CUstream on, CUdeviceptr address, cuuint64_t value, unsigned int) {
  ENTER("cuStreamWaitValue64");
  STREAM(on);
  push(stream, [=] {
    auto& word = *reinterpret_cast<cuuint64_t*>(address);
    while (static_cast<std::int64_t>(std::atomic_ref(word).load() - value) < 0) {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchHostFunc(CUstream on, CUhostFn function, void* data) {
  ENTER("cuLaunchHostFunc");
  STREAM(on);
  push(stream, [=] {
    here().in_host_function = true;
    function(data);
    here().in_host_function = false;
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void*) {
  ENTER("cuModuleLoadData");
  *module = nullptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule, const char*) {
  ENTER("cuModuleGetFunction");
  *function = nullptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                unsigned int, unsigned int, CUstream on, void** arguments, void**) {
  ENTER("cuLaunchKernel");
  STREAM(on);
  push(stream, [word = *static_cast<unsigned int**>(arguments[0])] {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    while (!std::atomic_ref(*word).load() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  });
  return CUDA_SUCCESS;
}

}  // extern "C"
