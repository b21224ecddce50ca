// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers in words.

#include <chrono>
#include <cstddef>
#include <string>

namespace weir::cli {

/// Return text such as "4 MiB" or "139.8 GiB".
std::string size_text(std::size_t bytes);
/// Return text such as "12.3 µs" or "4.56 ms".
std::string time_text(std::chrono::nanoseconds time);

}  // namespace weir::cli
