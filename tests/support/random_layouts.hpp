// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays that lie in memory in all ways that a copy must master, and the copy of one element after the other.

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "bytes.hpp"
#include "weir/layout.hpp"

namespace weir::test {

class RandomLayouts {
 public:
  explicit RandomLayouts(std::uint32_t seed) : random_(seed) {}

  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  [[nodiscard]] DType dtype() {
    constexpr DType all[] = {u8, i16, f32, f64, c128, {1, 8, 3}, {2, 32, 3}};
    return all[static_cast<std::size_t>(between(0, std::size(all) - 1))];
  }

  [[nodiscard]] std::vector<std::int64_t> shape(std::size_t most_dimensions, std::int64_t most_elements) {
    std::vector<std::int64_t> extents(static_cast<std::size_t>(between(0, static_cast<std::int64_t>(most_dimensions))));
    for (auto& extent : extents) {
      extent = between(1, std::min<std::int64_t>(most_elements, 9));
      most_elements /= extent;
    }
    return extents;
  }

  /// Dimensions in any order, forward and backward, with gaps or none. With `repeats`, some have a stride of 0.
  [[nodiscard]] Layout layout(DType type, const std::vector<std::int64_t>& shape, bool repeats) {
    Layout made{type, shape, std::vector<std::int64_t>(shape.size()), static_cast<std::size_t>(between(0, 17))};
    std::vector<std::size_t> order(shape.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
    if (between(0, 1) == 0) std::ranges::shuffle(order, random_);
    std::int64_t next = 1;
    for (const std::size_t dimension : order) {
      if (repeats && between(0, 5) == 0) continue;
      if (between(0, 2) == 0) next = next * between(1, 2) + between(0, 3);
      const bool backward = between(0, 3) == 0;
      made.strides[dimension] = backward ? -next : next;
      if (backward) made.byte_offset += static_cast<std::size_t>((shape[dimension] - 1) * next) * type.bytes();
      next *= shape[dimension];
    }
    return made;
  }

 private:
  std::mt19937 random_;
};

/// Call `element(offset)` for each element in row-major order, with its distance from the beginning of the buffer.
template <class Element>
void for_each_element(const Layout& layout, Element element) {
  std::vector<std::int64_t> index(layout.shape.size());
  for (std::int64_t n = layout.elements(); n > 0; --n) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < index.size(); ++i) at += index[i] * layout.strides[i];
    element(static_cast<std::size_t>(static_cast<std::int64_t>(layout.byte_offset) +
                                     at * static_cast<std::int64_t>(layout.dtype.bytes())));
    for (std::size_t i = index.size(); i-- > 0 && ++index[i] == layout.shape[i];) index[i] = 0;
  }
}

/// Where each element is, in row-major order.
inline std::vector<std::size_t> places(const Layout& layout) {
  std::vector<std::size_t> all;
  for_each_element(layout, [&](std::size_t at) { all.push_back(at); });
  return all;
}

inline void copy_elements(Bytes& dst, const Layout& to, const Bytes& src, const Layout& from) {
  const auto target = places(to), source = places(from);
  for (std::size_t i = 0; i < target.size(); ++i)
    std::memcpy(dst.data() + target[i], src.data() + source[i], to.dtype.bytes());
}

}  // namespace weir::test
