// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the target of an operation on elements must be.

#include "weir/layout.hpp"

namespace weir::detail {

/// Throws invalid_argument when elements of `dst` share memory. `operation` is the public function's name.
void check_elements_apart(const char* operation, const Layout& dst);

}  // namespace weir::detail
