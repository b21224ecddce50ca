// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers in words.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace weir::cli {

/// Name of a DLDeviceType.
std::string dlpack_name(std::int32_t type);
/// "4 MiB", "139.8 GiB".
std::string size_text(std::size_t bytes);
/// "12.3 µs", "4.56 ms".
std::string time_text(std::chrono::nanoseconds time);

}  // namespace weir::cli
