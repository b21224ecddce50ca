// SPDX-License-Identifier: Apache-2.0
#pragma once
// A point of another process's timeline: a socket into which the exporter sends one byte when the point is reached. The
// byte is looked at, never taken, so any number of importers may share the end; hang-up without it means that the
// exporter died before.

#include "weir/spi/unique_fd.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

/// Send the byte when `stream` reaches its present point. Returns the importer's end.
[[nodiscard]] spi::UniqueFd send_ready(const Stream& stream);

/// The same point in the process that received that end. Its timeline ends with peer_gone when the exporter died.
[[nodiscard]] Event receive_ready(spi::UniqueFd end);

}  // namespace weir::detail
