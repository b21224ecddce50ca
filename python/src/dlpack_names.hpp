// SPDX-License-Identifier: Apache-2.0
#pragma once
// The keyword arguments of __dlpack__ as strings of Python, so that comparing them is comparing addresses.

#include "bind.hpp"

namespace weir::python {

enum class Name { copy, stream, max_version, dl_device, dlpack, dlpack_device };

/// Return the interned string, which lives as long as the process.
PyObject* interned(Name name);

/// Return whether `string` is that name.
inline bool is_name(nb::handle string, Name name) {
  PyObject* const mine = interned(name);
  return string.ptr() == mine || PyUnicode_Compare(string.ptr(), mine) == 0;
}

}  // namespace weir::python
