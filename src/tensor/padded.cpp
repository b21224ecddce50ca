// SPDX-License-Identifier: Apache-2.0
// Layouts of arrays whose rows are longer than what is used of them. A layout does not store its padded shape, because
// slices and imported tensors would then have the strides of one and not say so. The strides tell all of it that
// matters.
#include <optional>
#include <utility>

#include "base/refuse.hpp"
#include "tensor/text.hpp"
#include "weir/layout.hpp"

namespace weir {
namespace {

using Extents = std::vector<std::int64_t>;

// Return the extents by which each stride is a multiple of the next one. Dimensions of one index take no stride, so
// theirs may be anything: with `skip`, no such stride is looked at.
std::optional<Extents> extents_between(const Layout& layout, bool skip) {
  Extents padded = layout.shape;
  std::int64_t stride = 1;
  std::optional<std::size_t> inner;  // the dimension that is `stride` apart
  for (std::size_t i = padded.size(); i-- > 0;) {
    const bool taken = layout.shape[i] != 1;
    if (!taken && skip) continue;
    if (!inner) {
      if (layout.strides[i] != 1 && taken) return std::nullopt;
    } else {
      const auto extent = layout.strides[i] / stride;
      if (extent < layout.shape[*inner] || extent < 1 || layout.strides[i] % stride != 0) return std::nullopt;
      padded[*inner] = extent;
      stride = layout.strides[i];
    }
    inner = i;
  }
  return padded;
}

}  // namespace

Layout Layout::padded(DType dtype, std::vector<std::int64_t> shape, const std::vector<std::int64_t>& padded_shape,
                      std::size_t byte_offset) {
  if (shape.size() != padded_shape.size()) {
    detail::refuse("Layout::padded", "shape " + detail::text_of(shape) + " and padded shape " +
                                         detail::text_of(padded_shape) + " have different numbers of dimensions");
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0)
      detail::refuse("Layout::padded",
                     "extent " + std::to_string(shape[i]) + " of dimension " + std::to_string(i) + " is negative");
    if (shape[i] <= padded_shape[i]) continue;
    detail::refuse("Layout::padded", "extent " + std::to_string(shape[i]) + " of dimension " + std::to_string(i) +
           " is larger than its padded extent " + std::to_string(padded_shape[i]));
  }
  Layout layout = compact(dtype, padded_shape, byte_offset);
  (void)layout.bytes_needed();
  layout.shape = std::move(shape);
  return layout;
}

std::optional<std::vector<std::int64_t>> Layout::padded_shape() const {
  (void)bytes_needed();
  if (auto padded = extents_between(*this, false)) return padded;
  if (auto padded = extents_between(*this, true)) return padded;
  if (is_compact()) return shape;  // no elements
  return std::nullopt;
}

}  // namespace weir
