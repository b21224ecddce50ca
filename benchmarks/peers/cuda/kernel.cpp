// SPDX-License-Identifier: Apache-2.0
#include "kernel.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "driver.hpp"

namespace weir::bench {
namespace {

constexpr char source[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry weir_busy(.param .u64 out, .param .u64 clocks)
{
  .reg .b64 %a<5>;
  .reg .pred %again;
  ld.param.u64 %a0, [out];
  ld.param.u64 %a4, [clocks];
  cvta.to.global.u64 %a0, %a0;
  mov.u64 %a1, %clock64;
again:
  mov.u64 %a2, %clock64;
  sub.u64 %a3, %a2, %a1;
  setp.lt.u64 %again, %a3, %a4;
  @%again bra again;
  st.global.u64 [%a0], %a2;
  ret;
}
)";

void launch(CUfunction kernel, CUstream stream, CUdeviceptr out, unsigned long long clocks) {
  std::array<void*, 2> arguments{&out, &clocks};
  must(cuda_driver().LaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments.data(), nullptr),
       "cuLaunchKernel");
}

// It did run if its word is not what it was; the modelled driver's only kernel ends at once when its word is
// not 0.
void try_out(CUfunction kernel) {
  constexpr std::uint64_t untouched = 1;
  void* memory = nullptr;
  must(cuda_driver().MemHostAlloc(&memory, sizeof untouched,
                                  CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
       "cuMemHostAlloc");
  const std::unique_ptr<void, void (*)(void*)> pinned(memory,
                                                      [](void* data) { cuda_driver().MemFreeHost(data); });
  auto& word = *new (memory) std::uint64_t(untouched);
  CUstream stream = nullptr;
  must(cuda_driver().StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  const std::unique_ptr<CUstream_st, void (*)(CUstream)> owned(
      stream, [](CUstream it) { cuda_driver().StreamDestroy(it); });
  launch(kernel, stream, reinterpret_cast<CUdeviceptr>(memory), 1);
  must(cuda_driver().StreamSynchronize(stream), "cuStreamSynchronize");
  if (word == untouched) throw std::runtime_error("this CUDA driver runs no kernels");
}

CUfunction load() {
  CUmodule module = nullptr;
  must(cuda_driver().ModuleLoadData(&module, source), "cuModuleLoadData");
  CUfunction kernel = nullptr;
  must(cuda_driver().ModuleGetFunction(&kernel, module, "weir_busy"), "cuModuleGetFunction");
  try_out(kernel);
  return kernel;
}

}  // namespace

void launch_busy_kernel(CUstream stream, CUdeviceptr out, unsigned long long clocks) {
  static const CUfunction kernel = load();  // for ever
  launch(kernel, stream, out, clocks);
}

}  // namespace weir::bench
