// SPDX-License-Identifier: Apache-2.0
#pragma once
// The keyword arguments of __dlpack__ as strings of Python, so that comparing them is comparing addresses.

#include "bind.hpp"

namespace weir::python {

enum class Name { copy, stream, max_version, dl_device, dlpack, dlpack_device, exchange_api, requires_grad, is_conj, is_neg, obj, size, alignment };

/// Make the strings, when the module is loaded.
void intern_names();
/// Return the interned string, which lives as long as the process.
PyObject* interned(Name name);

/// Return which of the keyword arguments of __dlpack__ `string` is, if it is one.
std::optional<Name> keyword(nb::handle string);

}  // namespace weir::python
