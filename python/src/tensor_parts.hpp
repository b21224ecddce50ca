// SPDX-License-Identifier: Apache-2.0
#pragma once
// The class Tensor is bound in parts, one file per verb. Copies serve other classes, too.

#include <cstddef>
#include <span>

#include "bind.hpp"

namespace weir::python {

void bind_tensor_copies(nb::class_<Tensor>& c);
void bind_tensor_fills(nb::class_<Tensor>& c);

/// Enqueue a copy as Tensor.copy_from does: from a Tensor, a Buffer, or an array of the host.
void copy_elements_from(Tensor dst, nb::handle source, const Stream& stream);
/// Enqueue a copy as Tensor.copy_to does, and return the target.
nb::object copy_elements_to(const Tensor& src, nb::object target, const Stream& stream);

/// Return an array of the host without gaps whose work is complete: this one, or a copy.
Tensor complete_rows(const Tensor& array);
/// Return the bytes of an array of the host without gaps.
std::span<const std::byte> bytes_of(const Tensor& array);

}  // namespace weir::python
