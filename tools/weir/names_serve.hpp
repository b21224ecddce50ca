// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace weir::cli {

/// Publish what the words name at the path, until the process is asked to end. With `read_only`, no other process can
/// write it.
int serve_names(const std::string& path, std::span<char*> words, bool read_only);

}  // namespace weir::cli
