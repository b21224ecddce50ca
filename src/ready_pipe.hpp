// SPDX-License-Identifier: Apache-2.0
#pragma once
// A point of another process's timeline: a pipe into which the exporter writes one byte when the point is reached. The
// byte is looked at, never taken, so any number of importers may share the reading end; hang-up without it means that
// the exporter died before.

#include "weir/spi/unique_fd.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

/// Make a pipe whose byte is written when `stream` reaches its present point. Returns the reading end.
[[nodiscard]] spi::UniqueFd send_ready(const Stream& stream);

/// The same point in the process that received the reading end. Its timeline ends with peer_gone when the writer died.
[[nodiscard]] Event receive_ready(spi::UniqueFd reading_end);

}  // namespace weir::detail
