// SPDX-License-Identifier: Apache-2.0
#pragma once
// Physical handles, for the files that make them.

#include "world.hpp"

namespace fake {

/// A new handle; owns its file.
CUmemGenericAllocationHandle add_handle(const Handle& handle);
/// The handle if it may be used, else null with a violation.
Handle* handle_of(const char* call, CUmemGenericAllocationHandle id);
/// Give the memory back once nobody owns or maps it.
void drop_unused(CUmemGenericAllocationHandle id);

}  // namespace fake
