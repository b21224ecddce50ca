// SPDX-License-Identifier: Apache-2.0
#pragma once
// Traces from text. docs/traces.md says what the formats are.

#include <string>
#include <string_view>

#include "replay/trace.hpp"

namespace weir::replay {

/// The trace in `text`, its format told by the first line. Throws TraceError for what is none; survives
/// anything.
[[nodiscard]] Trace parse_trace(std::string_view text);

/// The trace in the file, which may be compressed (gzip). Throws TraceError, std::system_error; the message
/// names the file.
[[nodiscard]] Trace read_trace(const std::string& path);

}  // namespace weir::replay
