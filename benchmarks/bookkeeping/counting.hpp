// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much memory operator new has out. This program replaces it.

#include <cstddef>

namespace weir::bench {

/// Bytes, as the C library rounded them up.
[[nodiscard]] std::size_t bytes_from_new() noexcept;

}  // namespace weir::bench
