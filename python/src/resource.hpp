// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the files about resources share.

#include "bind.hpp"

namespace weir::python {

/// Return the counters as what MemoryResource.stats() returns.
nb::dict dict_of(const ResourceStats& stats);

}  // namespace weir::python
