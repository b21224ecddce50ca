// SPDX-License-Identifier: Apache-2.0
// Hand a tensor to another framework and take one over, without a copy. Here weir plays both sides.
#include <cstdio>

#include "weir/weir.hpp"

int main() {
  const weir::Stream stream{weir::host_device()};
  weir::Buffer buffer = weir::make_resource(weir::host_device())->allocate(6 * sizeof(float), stream);
  const std::byte* const address = buffer.host_data();
  reinterpret_cast<float*>(buffer.host_data())[5] = 2.5f;

  // The consumer names its stream: its later work is ordered after everything that was put on the memory.
  weir::ManagedTensor exported = buffer.view(weir::f32, {2, 3}).to_dlpack(stream);
  buffer.close();  // the tensor owns the memory now

  // release() hands the struct over; whoever takes it calls its deleter, on any thread.
  const weir::Tensor imported = weir::from_dlpack(exported.release(), stream);
  const weir::Layout& layout = imported.layout();
  const auto* values = reinterpret_cast<const float*>(imported.buffer().host_data());
  std::printf("%s tensor of %lld x %lld, last element %g, %s\n", layout.dtype.to_string().c_str(),
              static_cast<long long>(layout.shape[0]), static_cast<long long>(layout.shape[1]), values[5],
              imported.buffer().host_data() == address ? "the same memory" : "moved");
  return imported.buffer().host_data() == address && values[5] == 2.5f ? 0 : 1;
}
