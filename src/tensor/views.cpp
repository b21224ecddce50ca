// SPDX-License-Identifier: Apache-2.0
// Tensors over the memory of another tensor, and spans over that of one.
#include <string>
#include <utility>

#include "weir/device.hpp"
#include "weir/error.hpp"
#include "weir/tensor.hpp"

namespace weir {

Tensor Tensor::slice(std::size_t dimension, const Slice& range) const {
  return {buffer_.share(), layout_.slice(dimension, range)};
}
Tensor Tensor::at(std::size_t dimension, std::int64_t index) const {
  return {buffer_.share(), layout_.at(dimension, index)};
}
Tensor Tensor::permute(const std::vector<std::size_t>& dimensions) const {
  return {buffer_.share(), layout_.permute(dimensions)};
}
Tensor Tensor::transpose() const { return {buffer_.share(), layout_.transpose()}; }
Tensor Tensor::reshape(std::vector<std::int64_t> shape) const {
  return {buffer_.share(), layout_.reshape(std::move(shape))};
}

std::byte* Tensor::host_elements(DType type, std::size_t alignment, bool writes) const {
  constexpr const char* what = "Tensor::span: ";
  if (buffer_.is_closed()) throw Error(Errc::closed, std::string(what) + "the buffer is closed");
  if (type != layout_.dtype)
    throw Error(Errc::invalid_argument,
                what + type.to_string() + " was asked for, and the elements are " + layout_.dtype.to_string());
  if (!layout_.is_compact())
    throw Error(Errc::invalid_argument, std::string(what) + "the elements are not row-major without gaps");
  if (writes && buffer_.is_read_only())
    throw Error(Errc::invalid_argument, std::string(what) + "the memory is read-only; ask for const elements");
  if (layout_.elements() == 0) return nullptr;
  if (!buffer_.is_host_accessible())
    throw Error(Errc::unsupported, what + std::string("the host cannot reach ") +
                                       std::string(to_string(buffer_.kind())) + " memory of " + buffer_.device().id() +
                                       "; copy it to the host");
  std::byte* const first = buffer_.host_data() + layout_.byte_offset;
  if (reinterpret_cast<std::uintptr_t>(first) % alignment != 0)
    throw Error(Errc::invalid_argument,
                std::string(what) + "the elements are not aligned to " + std::to_string(alignment) + " bytes");
  return first;
}

}  // namespace weir
