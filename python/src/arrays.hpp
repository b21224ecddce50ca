// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays for callers that ask an object for one instead of taking it by a protocol: __array__ and __jax_array__.

#include "bind.hpp"

namespace weir::python {

/// Return NumPy's array over the memory, for `numpy.asarray(object)`, which asks when the buffer protocol has no
/// answer: for element types without a format, such as bfloat16, and for memory that the host cannot reach. Throws
/// TypeError, which says what to do instead; closed.
nb::object array_of(const Tensor& tensor, nb::handle dtype, nb::handle copy);

/// Return JAX's array, for `jax.numpy.asarray(object)`, which asks no object by DLPack. It shares the memory where JAX
/// can; memory of the host that is read-only or has gaps goes by way of NumPy, because JAX refuses it by DLPack.
nb::object jax_array(const Tensor& tensor);

/// Return the bytes of a buffer as a tensor. Throws closed, naming the `operation`.
Tensor as_bytes(const Buffer& buffer, const char* operation);

}  // namespace weir::python
