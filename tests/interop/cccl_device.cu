// SPDX-License-Identifier: Apache-2.0
// weir/interop/cccl.hpp as nvcc sees it, under the warnings that RMM has as errors: only compiled.
#include "weir/interop/cccl.hpp"

#include <cuda/buffer>
#include <cuda/std/optional>
#include <cuda/std/tuple>

#include "weir/weir.hpp"

namespace {

using weir::cccl::DeviceResource;
namespace mr = ::cuda::mr;

struct Holder {
  DeviceResource memory;
  int count;
};

/// As generic code has it that is for the host and for the device.
template <class T>
__host__ __device__ T copied(const T& value) {
  T one(value);
  T other(static_cast<T&&>(one));
  other = value;
  return other;
}
__host__ __device__ DeviceResource copied_plainly(const DeviceResource& memory) {
  DeviceResource one(memory);
  DeviceResource other(static_cast<DeviceResource&&>(one));
  other = memory;
  return other;
}
__host__ __device__ Holder copied_within(const Holder& holder) {
  Holder one(holder);
  Holder other(static_cast<Holder&&>(one));
  other = holder;
  return other;
}

}  // namespace

void use(const weir::ResourcePtr& resource, ::cuda::stream_ref stream) {
  DeviceResource memory(resource, [](const weir::OutOfMemory& error) { throw std::runtime_error(error.what()); });
  (void)copied(memory);
  (void)copied_plainly(memory);
  (void)copied_within(Holder{memory, 1});
  const mr::any_resource<mr::device_accessible> any{memory};
  const mr::any_resource<mr::device_accessible> twin = any;
  mr::resource_ref<mr::device_accessible> ref{memory};
  const ::cuda::buffer<int, mr::device_accessible> ints{stream, memory, 100, ::cuda::no_init};
  const ::cuda::std::optional<DeviceResource> maybe(memory);
  const auto again = maybe;
  const ::cuda::std::tuple<DeviceResource, int> both(memory, 1);
  const auto captured = [memory] __host__ __device__(int i) { return i; };
  const auto captured_again = captured;
  (void)captured_again(1);
  (void)copied(both);
}
