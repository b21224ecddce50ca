// SPDX-License-Identifier: Apache-2.0
// Fills of the elements of a tensor.
#include <algorithm>
#include <string>

#include "copy/checks.hpp"
#include "copy/transfer.hpp"
#include "tensor/checks.hpp"
#include "weir/error.hpp"
#include "weir/tensor.hpp"

namespace weir {
namespace {

constexpr const char* operation = "Tensor::fill";

// Return the shortest beginning that a backend's fill makes the same bytes of, or all of them.
std::span<const std::byte> period_of(std::span<const std::byte> element) {
  for (const std::size_t period : {1, 2, 4, 8}) {
    if (element.size() % period != 0) continue;
    if (std::ranges::equal(element.first(element.size() - period), element.subspan(period)))
      return element.first(period);
  }
  return element;
}

// Elements along a stride of 0 are one.
Layout without_repeats(Layout layout) {
  for (std::size_t i = 0; i < layout.shape.size(); ++i)
    if (layout.strides[i] == 0) layout.shape[i] = std::min<std::int64_t>(layout.shape[i], 1);
  return layout;
}

void fill_elements(const Tensor& dst, std::span<const std::byte> pattern, const Stream& stream,
                   const FillOptions& options) {
  const auto to = detail::open_operand(operation, dst.buffer());
  (void)stream.state();
  detail::check_writable(operation, to);
  const Layout target = without_repeats(dst.layout());
  if (target.elements() == 0) return;
  if (!options.over_gaps) detail::check_elements_apart(operation, target);
  auto placed = detail::region_between(target.dtype.bytes(), target.shape, to.begin + target.byte_offset,
                                       target.strides, 0, target.strides);
  if (options.over_gaps) {
    const auto range = detail::written_range(placed);
    placed = {range.begin, 0, {range.end - range.begin, {}}};
  }
  detail::fill(*to.block, placed, pattern, stream);
}

}  // namespace

void Tensor::fill_typed(DType type, std::span<const std::byte> value, const Stream& stream,
                        const FillOptions& options) const {
  if (type != layout_.dtype) {
    throw Error(Errc::invalid_argument, operation + (": the value is " + type.to_string()) + ", and the elements are " +
                                            layout_.dtype.to_string());
  }
  fill_pattern(value, stream, options);
}

void Tensor::fill_pattern(std::span<const std::byte> element, const Stream& stream, const FillOptions& options) const {
  if (element.size() != layout_.dtype.bytes()) {
    throw Error(Errc::invalid_argument, std::string(operation) + ": the value has " + std::to_string(element.size()) +
                                            " bytes, an element of " + layout_.dtype.to_string() + " has " +
                                            std::to_string(layout_.dtype.bytes()));
  }
  fill_elements(*this, period_of(element), stream, options);
}

void Tensor::zero(const Stream& stream, const FillOptions& options) const {
  constexpr std::byte nothing{0};
  fill_elements(*this, {&nothing, 1}, stream, options);
}

}  // namespace weir
