// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole text files, compressed or not.

#include <string>

namespace weir::replay {

struct TextFile {
  std::string text;
  bool torn = false;  ///< the compressed data ends too early; `text` is what came before
};

/// Read a text file. It may be compressed by gzip if zlib was found at build time. Throws std::system_error or
/// std::runtime_error; the message names the file.
[[nodiscard]] TextFile read_text_file(const std::string& path);

}  // namespace weir::replay
