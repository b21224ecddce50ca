// SPDX-License-Identifier: Apache-2.0
#pragma once
// Move memory to where it is used first, before it is used.

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// Make "prefetch(upstream)", which moves each allocation of memory that migrates (CUDA managed) to `target`, a device
/// or the host. The move is work on the allocation stream. It costs one driver call per allocation, and saves the page
/// faults at the first use. A later use elsewhere moves the memory as it would without this resource. If the allocation
/// stream is of another backend, a stream of upstream's device does the move, and the allocation stream waits for it.
///
/// Over a pool each buffer is moved; under a pool, each segment once. Throws unsupported when memory of upstream's kind
/// does not move to `target`, and invalid_argument when `upstream` is null.
[[nodiscard]] WEIR_API ResourcePtr make_prefetch(ResourcePtr upstream, const Device& target);
/// The same with upstream's own device as the target.
[[nodiscard]] WEIR_API ResourcePtr make_prefetch(ResourcePtr upstream);

}  // namespace weir
