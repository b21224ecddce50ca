// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that is where it is used first, before it is used.

#include "weir/memory_resource.hpp"

namespace weir {

/// "prefetch(upstream)": moves each allocation of memory that migrates (CUDA managed) to `target`, a device
/// or the host, as work of the allocation stream: a driver call per allocation, and no page faults at the
/// first use. What uses the memory elsewhere later moves it as without this. On a stream of another backend,
/// a stream of upstream's device does it, which that one waits for.
///
/// Over a pool each buffer is moved; under one, each segment once. Throws unsupported when memory of
/// upstream's kind does not move to `target`, and invalid_argument without an upstream.
[[nodiscard]] ResourcePtr make_prefetch(ResourcePtr upstream, const Device& target);
/// To upstream's own device.
[[nodiscard]] ResourcePtr make_prefetch(ResourcePtr upstream);

}  // namespace weir
