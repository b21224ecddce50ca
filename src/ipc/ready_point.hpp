// SPDX-License-Identifier: Apache-2.0
#pragma once
// A point of another process's timeline: a socket into which the exporter sends one byte when the point is reached.
// Importers look at the byte and never take it, so any number of them may share their end. If the socket hangs up
// without the byte, the exporter died before the point was reached. A pipe would not do: a process that holds one end
// of a pipe can block the processes that write to the pipe or close it, and the exporter does both on a thread of its
// stream. With this socket, nobody can send anything to the exporter or hold what it needs.

#include "weir/spi/stranger_fd.hpp"
#include "weir/stream.hpp"

namespace weir::detail {

/// Send the byte when `stream` reaches its present point. Return the importer's end at once.
[[nodiscard]] spi::UniqueFd send_ready(const Stream& stream);

/// Return the same point in the process that received `end`. Its timeline is lost with peer_gone if the exporter dies
/// before it reaches the point.
[[nodiscard]] Event receive_ready(spi::StrangerFd end);

}  // namespace weir::detail
