// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Python half of DLPack (array API 2025.12): keyword arguments, capsules and the order between streams.

#include "bind.hpp"
#include "weir/spi/dlpack.hpp"

namespace weir::python {

/// Return the methods `__dlpack__` and `__dlpack_device__` for a class, which show `self` as a tensor.
PyMethodDef* buffer_dlpack_methods();
PyMethodDef* tensor_dlpack_methods();

/// Take over the tensor of any object with __dlpack__, or of a bare capsule. The tensor's work is ordered before
/// `stream`. None means a stream of the host that the thread keeps, or CUDA's legacy default stream for an object with
/// CUDA device or managed memory.
Tensor from_dlpack(nb::handle object, nb::handle stream);

/// Take over a tensor whose work is in order of `stream` already. Ownership moves even when this throws.
Tensor take_over(DLManagedTensorVersioned* managed, const Stream& stream);

/// Export the elements for a consumer on `consumer`, as spi::export_elements does.
ManagedTensor export_for(const Buffer& buffer, const spi::Elements& elements, DlpackDevice device, std::uint64_t flags,
                         const Stream& consumer);

/// Return DLPack's table of C functions for objects of class Tensor.
nb::capsule exchange_api();

}  // namespace weir::python
