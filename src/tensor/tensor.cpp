// SPDX-License-Identifier: Apache-2.0
#include "weir/tensor.hpp"

#include <utility>

#include "weir/error.hpp"

namespace weir {

Tensor::Tensor(Buffer buffer, Layout layout) : buffer_(std::move(buffer)), layout_(std::move(layout)) {
  if (buffer_.is_closed()) throw Error(Errc::closed, "Tensor: the buffer is closed");
  const auto needed = layout_.bytes_needed();
  if (needed > buffer_.size()) {
    throw Error(Errc::invalid_argument, "Tensor: " + std::to_string(layout_.elements()) + " elements of " +
                                            layout_.dtype.to_string() + " need " + std::to_string(needed) +
                                            " bytes, the buffer has " + std::to_string(buffer_.size()));
  }
  if (layout_.byte_offset > buffer_.size()) {  // of no elements, which need no bytes
    throw Error(Errc::invalid_argument, "Tensor: byte offset " + std::to_string(layout_.byte_offset) +
                                            " lies outside of a buffer of " + std::to_string(buffer_.size()));
  }
}

Tensor Tensor::share() const { return {buffer_.share(), layout_}; }

Tensor Buffer::view(DType dtype, std::vector<std::int64_t> shape, std::size_t byte_offset) const {
  return {share(), Layout::compact(dtype, std::move(shape), byte_offset)};
}

}  // namespace weir
