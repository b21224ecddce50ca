// SPDX-License-Identifier: Apache-2.0
#pragma once
// What two processes do with each other, in small, with both of them in this one: whichever end's call fails, the other
// one is neither kept waiting nor lost unless the protocol says so. Then scenarios.hpp and second_try.hpp.

#include <span>

#include "scenarios.hpp"

namespace weir::test {

/// Over sockets that both ends have: channels, rings, points of the peer's streams, memory lent for reading.
std::span<const Scenario> peers();
/// At a path: tensors by name, and sets that a holder keeps.
std::span<const Scenario> peers_at_paths();

}  // namespace weir::test
