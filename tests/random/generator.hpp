// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes random programs whose result is defined.

#include "memory.hpp"
#include "program.hpp"

namespace weir::test::random {

/// A program over these memories and their devices: the same for the same seed and memories.
[[nodiscard]] Program generate(std::uint64_t seed, const std::vector<Memory>& memories);

}  // namespace weir::test::random
