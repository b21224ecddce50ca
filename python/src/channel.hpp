// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bind.hpp"

namespace weir::python {

/// Add Channel to weir.ipc.
void bind_channels(nb::module_& ipc);

}  // namespace weir::python
