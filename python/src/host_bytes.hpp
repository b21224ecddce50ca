// SPDX-License-Identifier: Apache-2.0
#pragma once
// The buffer protocol (PEP 3118) in both directions.

#include <span>

#include "bind.hpp"

namespace weir::python {

/// Bytes of an object with the buffer protocol, held for as long as this lives.
struct HostBytes {
  nb::object view;  ///< memoryview
  std::span<std::byte> bytes;
};
/// To read; elements that are not contiguous are gathered in C order first.
HostBytes readable(nb::handle object);
/// To write; contiguous and writable, else BufferError.
HostBytes writable(nb::handle object);

/// bf_getbuffer and bf_releasebuffer: host-accessible memory, complete when the view is made. A view owns the memory
/// as another Buffer would.
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept;
int get_tensor(PyObject* self, Py_buffer* view, int flags) noexcept;
void release_buffer(PyObject* self, Py_buffer* view) noexcept;

}  // namespace weir::python
