// SPDX-License-Identifier: Apache-2.0
#pragma once
// The buffer protocol (PEP 3118) in both directions.

#include <span>

#include "bind.hpp"

namespace weir::python {

/// The bytes of an object with the buffer protocol, held as long as this lives.
struct HostBytes {
  nb::object view;  ///< memoryview
  std::span<std::byte> bytes;
};
/// Return the bytes of `object` for reading. Elements that are not contiguous are gathered in C order first. Throws
/// TypeError for references to objects of Python, also for writing.
HostBytes readable(nb::handle object);
/// Return the bytes of `object` for writing. Throws BufferError unless they are contiguous and writable.
HostBytes writable(nb::handle object);

/// An array of NumPy, and the type of its elements.
struct TypedArray {
  nb::object array;
  DType dtype;
};
/// Return an array of NumPy whose element type the buffer protocol has no format for, such as bfloat16, as one of
/// integers over the same memory, and the type; nothing for other objects.
std::optional<TypedArray> as_integers(nb::handle object);

/// The slots bf_getbuffer and bf_releasebuffer, for host-accessible memory. All recorded uses of the memory are
/// complete when the view is made. A view owns the memory as another Buffer would.
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;
int get_tensor(PyObject* self, Py_buffer* view, int flags) noexcept;
void release_buffer(PyObject* self, Py_buffer* view) noexcept;

/// Raise KeyboardInterrupt if Ctrl-C has just ended a request for a view of this Buffer or Tensor, in the same call of
/// Python. NumPy takes that for a refusal, and asks for __array__ next, which would wait once more.
void raise_lost_interrupt(const void* object);

}  // namespace weir::python
