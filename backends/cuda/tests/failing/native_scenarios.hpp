// SPDX-License-Identifier: Apache-2.0
#pragma once
// What only programs over CUDA do: native streams, pools of their own, a second device.

#include <span>
#include <string_view>

#include "scenarios.hpp"

namespace weir::cuda_test {

std::span<const test::Scenario> native_scenarios();
/// Of these or of the core list; null when there is none of that name.
const test::Scenario* scenario_named(std::string_view name);

}  // namespace weir::cuda_test
