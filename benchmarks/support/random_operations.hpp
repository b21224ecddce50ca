// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations of RMM's random-allocation benchmark, drawn before the time runs.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::bench {

struct RandomOperation {
  std::uint64_t bytes;  ///< to allocate, at the end of the list of live ones; 0: free
  std::uint32_t place;  ///< in that list, of what is freed; the last one then takes its place
};

/// `count` allocations of 1 to `most_bytes` bytes, and as many frees, so that nothing is left. As long as
/// there are allocations to do, an operation is one with a probability of 73 %, unless more than `most_live`
/// bytes would be live.
[[nodiscard]] std::vector<RandomOperation> random_operations(std::size_t count, std::size_t most_bytes,
                                                             std::size_t most_live);

/// The most buffers that live at once.
[[nodiscard]] std::size_t most_live_buffers(const std::vector<RandomOperation>& operations);

}  // namespace weir::bench
