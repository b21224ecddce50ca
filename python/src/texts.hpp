// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arguments that are texts: names and paths. Python's strings may have lone surrogates, for which there is no UTF-8.

#include <string>

#include "bind.hpp"

namespace weir::python {

/// Return a str as UTF-8. Throws TypeError "<what> must be a str, not <class of object>", ValueError for a str that
/// has no UTF-8.
std::string string_of(nb::handle object, const char* what);

/// Return the name of a file as Python's own functions take it: str, os.PathLike, or bytes. Throws TypeError and
/// ValueError, which name the argument.
std::string path_of(nb::handle path);
/// Return the name of a file as a str, from which path_of makes the same name.
nb::object path_text(const std::string& path);

/// Return str(object) for a message, as UTF-8. What has no UTF-8 is escaped.
std::string shown(nb::handle object);

}  // namespace weir::python
