// SPDX-License-Identifier: Apache-2.0
#pragma once
// The class Tensor is bound in parts, one file per verb.

#include "bind.hpp"

namespace weir::python {

void bind_tensor_copies(nb::class_<Tensor>& c);
void bind_tensor_fills(nb::class_<Tensor>& c);

}  // namespace weir::python
