// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pools that other processes import: a file with a table of the allocations in front, and their bytes behind it.

#include "world.hpp"

namespace fake {

/// Make the pool one that can be shared.
CUresult make_shareable(Pool& pool);
/// Take memory of such a pool. It is not counted as the pool's yet.
CUresult allocate_shared(Pool& pool, CUdeviceptr* address, std::size_t bytes);
/// Let go of the pool's file.
void end_sharing(Pool& pool);

}  // namespace fake
