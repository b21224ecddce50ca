// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shapes and strides in messages.

#include <cstdint>
#include <string>
#include <vector>

namespace weir::detail {

/// Return "(2, 3)".
[[nodiscard]] inline std::string text_of(const std::vector<std::int64_t>& extents) {
  std::string text = "(";
  for (std::size_t i = 0; i < extents.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(extents[i]);
  return text + ")";
}

}  // namespace weir::detail
