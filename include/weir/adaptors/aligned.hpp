// SPDX-License-Identifier: Apache-2.0
#pragma once
// A larger alignment than callers ask for, for all buffers or only for large ones.

#include <cstddef>

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// Make "aligned(upstream)": every buffer of at least `threshold` bytes begins at a multiple of `alignment`, or of the
/// alignment that was asked for if that is larger. The adaptor over-allocates nothing: upstream honours alignments by
/// contract, and wastes less than anybody could from outside. Throws invalid_argument for an alignment that is not a
/// power of two of at most 1 GiB, and when `upstream` is null.
[[nodiscard]] WEIR_API ResourcePtr make_aligned(ResourcePtr upstream, std::size_t alignment,
                                                std::size_t threshold = 0);

}  // namespace weir
