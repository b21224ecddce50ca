// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir::cli {

/// Get the tensor of that name from the server at the path, and write it to `file`; or print it if that is null.
int show_name(const std::string& path, const std::string& name, const char* file);

}  // namespace weir::cli
