// SPDX-License-Identifier: Apache-2.0
#pragma once
// Schedules of simulated protocols, one for each seed.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "weir/error.hpp"

namespace weir::test {

/// Play the schedules of the seeds from 1 to `count`, and stop at the first that fails, whose message names `variable`:
/// set to the seed, it plays that one alone. WEIR_SCHEDULES=n plays n times as many. The closing table counts them.
template <class Play>
void play_seeds(const char* variable, std::uint64_t count, const Play& play) {
  const char* const only = std::getenv(variable);
  const char* const times = std::getenv("WEIR_SCHEDULES");
  const std::uint64_t first = only ? std::strtoull(only, nullptr, 10) : 1;
  const std::uint64_t last = only ? first : count * (times ? std::strtoull(times, nullptr, 10) : 1);
  for (std::uint64_t seed = first; seed <= last && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(std::string(variable) + '=' + std::to_string(seed));
    try {
      play(seed);
    } catch (const Error& error) {
      ADD_FAILURE() << "an honest peer was refused: " << error.what();
    }
  }
  testing::Test::RecordProperty("schedules", std::to_string(last - first + 1));
}

}  // namespace weir::test
