// SPDX-License-Identifier: Apache-2.0
#pragma once
// Texts that processes tell each other: names, places and reasons, which go to terminals and to languages whose strings
// are Unicode.

#include <cstddef>
#include <string>
#include <string_view>

namespace weir::detail {

/// Return whether these bytes are UTF-8 without control characters (C0, DEL, C1).
[[nodiscard]] bool is_text(std::string_view bytes) noexcept;
/// Return a text of at most `most` bytes: the beginning of `bytes`, with a space for each byte that is_text forbids.
[[nodiscard]] std::string to_text(std::string_view bytes, std::size_t most);

}  // namespace weir::detail
