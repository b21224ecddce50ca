// SPDX-License-Identifier: Apache-2.0
// Tensors that are like another one, in other memory.
#include <utility>

#include "copy/checks.hpp"
#include "weir/error.hpp"
#include "weir/memory_resource.hpp"
#include "weir/tensor.hpp"

namespace weir {
namespace {

Tensor like(const Layout& layout, MemoryResource& resource, const Stream& stream) {
  const auto padded = layout.padded_shape().value_or(layout.shape);
  Buffer memory = resource.allocate(Layout::compact(layout.dtype, padded).bytes_needed(), stream);
  return {std::move(memory), Layout::padded(layout.dtype, layout.shape, padded)};
}

}  // namespace

Tensor Tensor::empty_like(const ResourcePtr& resource, const Stream& stream) const {
  (void)detail::open_operand("Tensor::empty_like", buffer_);
  if (!resource) throw Error(Errc::invalid_argument, "Tensor::empty_like: the resource is null");
  return like(layout_, *resource, stream);
}

Tensor Tensor::empty_like_host(const Stream& stream) const {
  (void)detail::open_operand("Tensor::empty_like_host", buffer_);
  const Device device = buffer_.device();
  return like(layout_, *make_resource(device, device.staging_kind()), stream);
}

}  // namespace weir
