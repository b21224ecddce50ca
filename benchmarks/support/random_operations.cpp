// SPDX-License-Identifier: Apache-2.0
#include "random_operations.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>

namespace weir::bench {

std::vector<RandomOperation> random_operations(std::size_t count, std::size_t most_bytes,
                                               std::size_t most_live) {
  constexpr unsigned allocations_percent = 73;
  std::minstd_rand0 random;  // the library's default engine
  std::uniform_int_distribution<std::uint64_t> size(1, most_bytes);
  std::uniform_int_distribution<unsigned> percent(0, 99);
  std::uniform_int_distribution<std::size_t> place(0, count - 1);
  std::vector<RandomOperation> operations;
  std::vector<std::uint64_t> live;
  std::size_t bytes_live = 0, allocated = 0;
  while (operations.size() < 2 * count) {
    const auto bytes = size(random);
    const bool fits = allocated < count && bytes_live + bytes < most_live;
    if (live.empty() || (percent(random) < allocations_percent && fits)) {
      operations.push_back({bytes, 0});
      live.push_back(bytes);
      bytes_live += bytes;
      ++allocated;
      continue;
    }
    const auto which = place(random) % live.size();
    operations.push_back({0, static_cast<std::uint32_t>(which)});
    bytes_live -= live[which];
    live[which] = live.back();
    live.pop_back();
  }
  if (!live.empty()) throw std::logic_error("random operations that leave something");
  return operations;
}

std::size_t most_live_buffers(const std::vector<RandomOperation>& operations) {
  std::size_t live = 0, most = 0;
  for (const RandomOperation& operation : operations) {
    live = operation.bytes != 0 ? live + 1 : live - 1;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace weir::bench
