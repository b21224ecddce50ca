// SPDX-License-Identifier: Apache-2.0
#pragma once
// More alignment than callers ask for, for all or for large buffers.

#include <cstddef>

#include "weir/memory_resource.hpp"

namespace weir {

/// "aligned(upstream)": every buffer of at least `threshold` bytes begins at a multiple of `alignment`, or of
/// what was asked for if that is more. Nothing is over-allocated here: upstream honours alignments by
/// contract, and does it with less waste than anybody could from outside. Throws invalid_argument for what is
/// not a power of two of at most 1 GiB, and without an upstream.
[[nodiscard]] ResourcePtr make_aligned(ResourcePtr upstream, std::size_t alignment,
                                       std::size_t threshold = 0);

}  // namespace weir
