// SPDX-License-Identifier: Apache-2.0
#pragma once
// Operands of copies: tensors of weir, and arrays of others in memory of the host.

#include <functional>
#include <optional>

#include "bind.hpp"

namespace weir::python {

/// Return another owner of a tensor. Throws closed, naming the operation that was called.
Tensor open_tensor(const Tensor& tensor, const char* operation);
/// Return an owner of a Tensor, or of a Buffer as an array of uint8; nothing for other objects.
std::optional<Tensor> weir_tensor(nb::handle object, const char* operation);

enum class Access { read, write };

/// An array of the host, seen as a tensor.
struct HostArray {
  Tensor tensor;
  std::function<void()> give_up;  ///< unlocks the object's memory, once, on any thread; empty for what knows no locks
};

/// Return a view of an array of the host, without a copy: an object with the buffer protocol and any strides, else one
/// with __dlpack__. It keeps the object's memory, and locks it where the object knows locks, until `give_up`, or until
/// the tensor is gone and every use is complete. Throws TypeError for other objects and for memory of a device,
/// BufferError for what cannot be written.
HostArray host_array(nb::handle object, const char* what, Access access);

}  // namespace weir::python
