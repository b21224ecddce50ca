// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes that the demo moves around. What a byte should be depends on a seed and on its position.

#include <cstddef>
#include <vector>

#include "weir/weir.hpp"

namespace weir::cli {

inline constexpr std::size_t demo_bytes = std::size_t{4} << 20;
inline constexpr unsigned shared_seed = 77;   ///< what the demo's first process writes into shared memory
inline constexpr unsigned changed_seed = 78;  ///< what the second process leaves there
inline constexpr char peer_agrees = 'y';
inline constexpr char peer_disagrees = 'n';

std::vector<std::byte> pattern(unsigned seed, std::size_t bytes);

/// Read `buffer` back on `stream` and compare every byte.
bool holds(const Buffer& buffer, const std::vector<std::byte>& expected, const Stream& stream);

}  // namespace weir::cli
