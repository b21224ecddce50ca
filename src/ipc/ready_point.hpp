// SPDX-License-Identifier: Apache-2.0
#pragma once
// A point of another process's timeline: a socket into which the exporter sends one byte when the point is reached. The
// byte is looked at, never taken, so any number of importers may share the end; hang-up without it means that the
// exporter died before. It is no pipe: whoever holds an end of a pipe can keep those waiting who write to it or close
// it, and the exporter does so on a thread of its stream. Here nobody can send to the exporter, or hold what it needs.

#include "weir/spi/stranger_fd.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

/// Send the byte when `stream` reaches its present point. Returns the importer's end.
[[nodiscard]] spi::UniqueFd send_ready(const Stream& stream);

/// The same point in the process that received that end. Its timeline ends with peer_gone when the exporter died.
[[nodiscard]] Event receive_ready(spi::StrangerFd end);

}  // namespace weir::detail
