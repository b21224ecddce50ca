// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tests that need an environment of their own, or a process in which nothing was loaded yet.

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weir::test {

/// Run the tests matching `filter` (also disabled ones) of this program in a new process with `environment`; the
/// output in case of failure.
testing::AssertionResult passes_alone(const std::string& filter, const std::vector<std::string>& environment);

}  // namespace weir::test
