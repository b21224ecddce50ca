// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Python half of DLPack (array API 2025.12): keyword arguments, capsules and the order between streams.

#include "bind.hpp"

namespace weir::python {

/// Slots for a class whose `__dlpack__` and `__dlpack_device__` show `self` as a tensor.
PyMethodDef* buffer_dlpack_methods();
PyMethodDef* tensor_dlpack_methods();

/// Take over the tensor of any object with __dlpack__, or of a bare capsule. Its work is ordered before `stream`; None
/// is a new stream of the host, or CUDA's legacy default stream.
Tensor from_dlpack(nb::handle object, nb::handle stream);

}  // namespace weir::python
