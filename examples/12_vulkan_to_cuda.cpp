// SPDX-License-Identifier: Apache-2.0
// Vulkan's memory as a tensor of CUDA, without a copy: what PyTorch, CuPy and other frameworks of the same GPU take.
// Needs a GPU that both drivers know. Prints why not where there is none, and ends with 77.
#include <cstdio>
#include <vector>

#include "weir/cuda.hpp"
#include "weir/vulkan.hpp"
#include "weir/weir.hpp"

namespace {

constexpr std::int32_t cuda_type = 2;  // kDLCUDA of dlpack.h

bool show(const weir::Device& device) {
  const weir::KindInfo* const kind = device.find(weir::MemoryKind::device);
  if (device.backend() != "vulkan" || !kind || !kind->exportable) return false;

  // Exportable memory alone has an address on CUDA. A pool imports a segment once for all buffers in it.
  const auto pool = weir::make_pool(weir::vulkan::make_device_resource(device, {.exportable = true}));
  const weir::Stream stream{device};
  weir::Buffer buffer = pool->allocate(1024 * sizeof(float), stream);
  const weir::DlpackDevice label = weir::dlpack_device(buffer);
  if (label.type != cuda_type) return false;
  buffer.fill(2.5f, stream);

  // The consumer's stream waits for the fill. A framework would take the struct that `release()` gives.
  const weir::Stream consumer{weir::cuda::device(label.id)};
  const weir::Tensor tensor = weir::from_dlpack(buffer.view(weir::f32, {1024}).to_dlpack(consumer).release(), consumer);
  std::vector<float> seen(1024);
  tensor.buffer().copy_to(std::as_writable_bytes(std::span(seen)), consumer);
  consumer.synchronize();
  std::printf("%s and %s share memory: the element at CUDA's address %llx is %g\n", device.id().c_str(),
              consumer.device().id().c_str(), weir::cuda::pointer(buffer), seen[1023]);
  if (seen[1023] != 2.5f) throw std::runtime_error("CUDA sees other bytes than Vulkan wrote");
  return true;
}

}  // namespace

int main() try {
  for (const weir::Device& device : weir::devices())
    if (show(device)) return 0;
  std::puts("no device of Vulkan here is a GPU that CUDA knows, too: nothing to show");
  return 77;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
