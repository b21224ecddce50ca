// SPDX-License-Identifier: Apache-2.0
// Which bytes of a buffer an array can touch.
#include <algorithm>

#include "weir/spi/dlpack.hpp"

namespace weir::spi {

ByteRange reach_of(const Elements& elements) noexcept {
  if (std::ranges::find(elements.shape, 0) != elements.shape.end()) return {};
  const auto item = static_cast<std::int64_t>(elements.dtype.bytes());
  auto begin = static_cast<std::int64_t>(elements.byte_offset), end = begin + item;
  for (std::size_t i = 0; i < elements.shape.size(); ++i) {
    if (elements.shape[i] == 1) continue;  // its stride may be any number
    const auto reach = (elements.shape[i] - 1) * elements.strides[i] * item;
    (reach < 0 ? begin : end) += reach;
  }
  return {static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)};
}

}  // namespace weir::spi
