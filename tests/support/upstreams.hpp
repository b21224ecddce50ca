// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resources that stand over others.

#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

namespace weir::test {

/// Expect that an adaptor and a pool can stand over `below`, and that nothing of what they had stays counted there or
/// further down. Nobody else may use these resources meanwhile.
void expect_serves_others(const ResourcePtr& below, const Stream& stream);

}  // namespace weir::test
