// SPDX-License-Identifier: Apache-2.0
// Copies between the elements of two tensors.
#include <string>

#include "copy/checks.hpp"
#include "copy/transfer.hpp"
#include "tensor/checks.hpp"
#include "tensor/text.hpp"
#include "weir/error.hpp"
#include "weir/memory_resource.hpp"
#include "weir/tensor.hpp"

namespace weir {
namespace {

void check_same(const char* operation, const Layout& dst, const Layout& src) {
  if (dst.dtype == src.dtype && dst.shape == src.shape) return;
  throw Error(Errc::invalid_argument, std::string(operation) + ": the source is " + src.dtype.to_string() +
                                          " of shape " + detail::text_of(src.shape) + ", the destination " +
                                          dst.dtype.to_string() + " of shape " + detail::text_of(dst.shape) +
                                          "; they must be equal");
}

void copy(const char* operation, const Tensor& dst, const Tensor& src, const Stream& stream) {
  const auto to = detail::open_operand(operation, dst.buffer());
  const auto from = detail::open_operand(operation, src.buffer());
  (void)stream.state();
  const Layout &target = dst.layout(), &source = src.layout();
  check_same(operation, target, source);
  detail::check_writable(operation, to);
  if (target.elements() == 0) return;
  detail::check_elements_apart(operation, target);
  const auto placed = detail::region_between(target.dtype.bytes(), target.shape, to.begin + target.byte_offset,
                                             target.strides, from.begin + source.byte_offset, source.strides);
  detail::check_apart(operation, *to.block->segment, *from.block->segment, placed);
  detail::transfer(*to.block, *from.block, placed, stream);
}

}  // namespace

void Tensor::copy_to(const Tensor& dst, const Stream& stream) const { copy("Tensor::copy_to", dst, *this, stream); }

void Tensor::copy_from(const Tensor& src, const Stream& stream) const { copy("Tensor::copy_from", *this, src, stream); }

Tensor Tensor::copy_to(const Stream& stream) const {
  (void)detail::open_operand("Tensor::copy_to", buffer_);
  Layout compact = Layout::compact(layout_.dtype, layout_.shape);
  Buffer memory = buffer_.memory_resource()->allocate(compact.bytes_needed(), stream);
  Tensor made(std::move(memory), std::move(compact));
  copy("Tensor::copy_to", made, *this, stream);
  return made;
}

}  // namespace weir
