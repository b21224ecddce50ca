// SPDX-License-Identifier: Apache-2.0
#pragma once
// Traces from text. docs/traces.md describes the formats.

#include <string>
#include <string_view>

#include "replay/trace.hpp"

namespace weir::replay {

/// Read the trace in `text`; the first line tells the format. Any text may be given: throws TraceError if it is not a
/// trace.
[[nodiscard]] Trace parse_trace(std::string_view text);

/// Read the trace in a file, which may be compressed (gzip). Throws TraceError, and what read_text_file throws. The
/// message names the file.
[[nodiscard]] Trace read_trace(const std::string& path);

}  // namespace weir::replay
