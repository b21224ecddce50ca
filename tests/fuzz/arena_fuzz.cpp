// SPDX-License-Identifier: Apache-2.0
// Any sequence of what a pool does to its free ranges, over segments and over addresses, against a list of
// intervals.

#include "input.hpp"
#include "target.hpp"
#include "unit/pool/arena/checked_arena.hpp"

namespace weir::fuzz {
namespace {

constexpr std::size_t most_steps = 2000;

void run_arena(std::span<const std::byte> bytes) {
  Input input(bytes);
  using Over = pool::CheckedArena::Over;
  pool::CheckedArena arena(input.below(2) == 0 ? Over::segments : Over::addresses);
  const auto below = [&](std::uint64_t count) {
    return (count > 256 ? input.take<std::uint16_t>() : input.take<std::uint8_t>()) % count;
  };
  for (std::size_t step = 0; step < most_steps && !input.empty(); ++step) arena.step(below);
  arena.end();
}

const Register registered("arena", &run_arena);

}  // namespace
}  // namespace weir::fuzz
