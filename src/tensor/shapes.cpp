// SPDX-License-Identifier: Apache-2.0
// Layouts of the same elements, or of some of them, in the same memory.
#include <algorithm>
#include <numeric>
#include <utility>

#include "base/refuse.hpp"
#include "tensor/text.hpp"
#include "weir/layout.hpp"

namespace weir {
namespace {

using detail::text_of;
using Extents = std::vector<std::int64_t>;

void check_dimension(const char* what, std::size_t dimension, const Layout& layout) {
  (void)layout.bytes_needed();
  if (dimension >= layout.shape.size())
    detail::refuse(std::string("Layout::") + what, "dimension " + std::to_string(dimension) + " of " +
           std::to_string(layout.shape.size()));
}

// A layout that is sound reaches each of its elements without overflow.
void move_to(Layout& layout, std::size_t dimension, std::int64_t index) {
  const auto item = static_cast<std::int64_t>(layout.dtype.bytes());
  layout.byte_offset += static_cast<std::size_t>(index * layout.strides[dimension] * item);
}

// Of a stride, the product may be beyond the last element, and too large; then it is not the stride of anything.
std::int64_t multiply(std::int64_t stride, std::int64_t extent) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(stride) * static_cast<std::uint64_t>(extent));
}

// Return the position that counts from the beginning, from `lowest` to `highest`.
std::int64_t position(std::optional<std::int64_t> given, std::int64_t extent, std::int64_t lowest, std::int64_t highest,
                      std::int64_t otherwise) {
  if (!given) return otherwise;
  return std::clamp(*given < 0 ? *given + extent : *given, lowest, highest);
}

// Fill in the extent that is -1, if there is one, and check the number of elements.
void complete(Extents& shape, std::int64_t elements, const Layout& from) {
  const auto fail = [&] {
    detail::refuse("Layout::reshape", std::to_string(elements) + " elements of shape " + text_of(from.shape) +
                                          " have no shape " + text_of(shape));
  };
  const auto unknown = std::ranges::find(shape, -1);
  if (unknown != shape.end()) {
    Extents others(shape.begin(), unknown);
    others.insert(others.end(), unknown + 1, shape.end());
    const auto known = Layout::compact(from.dtype, others).elements();
    if (known == 0 || elements % known != 0) fail();
    *unknown = elements / known;
  }
  if (Layout::compact(from.dtype, shape).elements() != elements) fail();
}

}  // namespace

Layout Layout::slice(std::size_t dimension, const Slice& range) const {
  check_dimension("slice", dimension, *this);
  if (range.step == 0) detail::refuse("Layout::slice", "the step is 0");
  const bool forward = range.step > 0;
  const auto extent = shape[dimension];
  const std::int64_t lowest = forward ? 0 : -1, highest = forward ? extent : extent - 1;
  const auto begin = position(range.begin, extent, lowest, highest, forward ? lowest : highest);
  const auto end = position(range.end, extent, lowest, highest, forward ? highest : lowest);
  Layout part = *this;
  auto& count = part.shape[dimension];
  count = 0;
  if (forward && begin < end) count = (end - begin - 1) / range.step + 1;
  if (!forward && end < begin) count = -((begin - end - 1) / range.step) + 1;
  if (part.elements() != 0) move_to(part, dimension, begin);
  if (count > 1) part.strides[dimension] = multiply(part.strides[dimension], range.step);
  return part;
}

Layout Layout::at(std::size_t dimension, std::int64_t index) const {
  check_dimension("at", dimension, *this);
  const auto extent = shape[dimension];
  const auto from_beginning = index < 0 ? index + extent : index;
  if (from_beginning < 0 || from_beginning >= extent)
    detail::refuse("Layout::at", "index " + std::to_string(index) + " of " + std::to_string(extent));
  Layout part = *this;
  if (elements() != 0) move_to(part, dimension, from_beginning);
  part.shape.erase(part.shape.begin() + static_cast<std::ptrdiff_t>(dimension));
  part.strides.erase(part.strides.begin() + static_cast<std::ptrdiff_t>(dimension));
  return part;
}

Layout Layout::permute(const std::vector<std::size_t>& dimensions) const {
  (void)bytes_needed();
  Layout other{dtype, {}, {}, byte_offset};
  std::vector<bool> taken(shape.size());
  for (const auto dimension : dimensions) {
    if (dimension >= shape.size() || taken[dimension]) break;
    taken[dimension] = true;
    other.shape.push_back(shape[dimension]);
    other.strides.push_back(strides[dimension]);
  }
  if (other.shape.size() != shape.size() || dimensions.size() != shape.size())
    detail::refuse("Layout::permute", "not each of " + std::to_string(shape.size()) + " dimensions is named once");
  return other;
}

Layout Layout::transpose() const {
  std::vector<std::size_t> reversed(shape.size());
  std::iota(reversed.rbegin(), reversed.rend(), std::size_t{0});
  return permute(reversed);
}

// Dimensions of the old and of the new shape that have the same number of elements are taken together, as few as
// possible at a time. Of each such group, the old ones have to be equally far apart.
Layout Layout::reshape(std::vector<std::int64_t> wanted) const {
  (void)bytes_needed();
  const auto count = elements();
  complete(wanted, count, *this);
  Layout other = compact(dtype, std::move(wanted), byte_offset);
  if (count == 0) return other;
  Extents old_shape, old_strides;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    old_shape.push_back(shape[i]);
    old_strides.push_back(strides[i]);
  }
  std::size_t old_begin = 0, new_begin = 0;
  while (old_begin < old_shape.size()) {
    std::size_t old_end = old_begin + 1, new_end = new_begin + 1;
    auto old_count = old_shape[old_begin], new_count = other.shape[new_begin];
    while (old_count != new_count) {
      if (old_count < new_count)
        old_count *= old_shape[old_end++];
      else
        new_count *= other.shape[new_end++];
    }
    for (auto i = old_begin; i + 1 < old_end; ++i) {
      if (old_strides[i] != multiply(old_strides[i + 1], old_shape[i + 1]))
        detail::refuse("Layout::reshape", "elements of shape " + text_of(shape) + " and strides " + text_of(strides) +
               " have to be copied for shape " + text_of(other.shape));
    }
    auto stride = old_strides[old_end - 1];
    for (auto i = new_end; i-- > new_begin;) {
      other.strides[i] = stride;
      stride = multiply(stride, other.shape[i]);
    }
    old_begin = old_end;
    new_begin = new_end;
  }
  return other;
}

}  // namespace weir
