// SPDX-License-Identifier: Apache-2.0
#pragma once
// The judge of Vulkan's ordering (backends/vulkan/tests/judge): it stands between weir and the driver on a CPU, and
// records what no correct program does.

#include <string>

namespace weir::test {

/// Let weir load it as if it were the system's loader; call this before devices are looked for. Programs that this one
/// starts get it, too, and end by SIGABRT where they break a rule. WEIR_VULKAN_LIBRARY names another loader,
/// WEIR_VULKAN_JUDGE=0 takes the system's.
void choose_judged_vulkan();

/// Where the judge is that devices were looked for through; empty without one.
std::string judged_vulkan();

/// How the rules were broken since the last call, a line each. Empty without the judge.
std::string take_judgements();

}  // namespace weir::test
