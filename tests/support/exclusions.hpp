// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a memory cannot do although the contract asks for it. Such a test still runs: its failure shows as a skip with
// the reason, and its success is a failure, so that no line outlives its cause.

#include <string_view>

namespace weir::test {

enum class Lasting { permanent, temporary };

struct Exclusion {
  std::string_view pattern;  ///< of "Suite.Test/param", with * and ?
  Lasting lasting;
  std::string_view reason;
};

/// The line that covers the test, or null.
const Exclusion* excluded(std::string_view test);

bool matches(std::string_view pattern, std::string_view text);

}  // namespace weir::test
