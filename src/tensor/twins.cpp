// SPDX-License-Identifier: Apache-2.0
// Tensors that are like another one, in other memory.
#include <cstdint>
#include <utility>
#include <vector>

#include "copy/checks.hpp"
#include "weir/error.hpp"
#include "weir/memory_resource.hpp"
#include "weir/tensor.hpp"

namespace weir {
namespace {

// Return the padded shape, but believe no stride that no element takes: memory for what it says may be any amount. Such
// are the strides of an array without elements, and those of one index in front of all others.
std::vector<std::int64_t> room_of(const Layout& layout) {
  if (layout.is_compact()) return layout.shape;
  auto room = layout.padded_shape().value_or(layout.shape);
  for (std::size_t i = 1; i < room.size() && layout.shape[i - 1] == 1; ++i) room[i] = layout.shape[i];
  return room;
}

Tensor like(const Layout& layout, MemoryResource& resource, const Stream& stream) {
  const auto padded = room_of(layout);
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
