// SPDX-License-Identifier: Apache-2.0
#pragma once
// The modelled CUDA driver, where tests run over it: it records what no correct program does.

#include <cstddef>
#include <string>

namespace weir::test {

/// How the driver's rules were broken since the last call, a line each. Empty over real drivers.
std::string take_violations();

/// A function of the model by its name, or null over real drivers.
void* find_in_model(const char* symbol);

}  // namespace weir::test
