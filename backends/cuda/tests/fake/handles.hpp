// SPDX-License-Identifier: Apache-2.0
#pragma once
// Physical handles, for the files that make them.

#include "world.hpp"

namespace fake {

/// A new handle; owns its file.
CUmemGenericAllocationHandle add_handle(const Handle& handle);
/// The handle if it may be used, else null with a violation.
Handle* handle_of(const char* call, CUmemGenericAllocationHandle id);
/// Make the file of a handle's memory, which begins at `begin` of it. -1 where there is no room for it.
int make_file(int device, std::size_t bytes, bool exportable, std::size_t& begin);
/// Return where memory begins in files that are exported.
std::size_t begin_in_files();
/// Give the memory back once nobody owns or maps it.
void drop_unused(CUmemGenericAllocationHandle id);

}  // namespace fake
