// SPDX-License-Identifier: Apache-2.0
#include "peers/cuda/async.hpp"
#include "peers/cuda/kernel.hpp"
#include "pool/common.hpp"
#include "pool/streams.hpp"
#include "support/pooled.hpp"
#include "support/suite.hpp"
#include "weir/cuda.hpp"

namespace weir::bench {
namespace {

constexpr std::size_t word = 8;
constexpr char label[] = "kernels of a million clocks";

const Suite suite("cuda", [](const Device& device) {
  const auto weir = weir_on(device);
  add_common(weir, device);
  const Work<Pooled> run = [](Buffer& buffer, const Stream& stream) {
    make_cuda_current();
    launch_busy_kernel(cuda::native(stream), cuda::pointer(buffer));
  };
  add_streams(weir, word, run, label);
  for (const auto use : {CudaAsync::Use::tuned, CudaAsync::Use::as_delivered}) {
    const auto peer = cuda_async(use);
    add_common(peer, device);
    const Work<CudaAsync> run_raw = [](CUdeviceptr& memory, const CudaAsync::Stream& stream) {
      make_cuda_current();
      launch_busy_kernel(stream.get(), memory);
    };
    add_streams(peer, word, run_raw, label);
  }
});

}  // namespace
}  // namespace weir::bench
