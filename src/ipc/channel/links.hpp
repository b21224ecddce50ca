// SPDX-License-Identifier: Apache-2.0
#pragma once
// All connections of the process, which have to hear of the ends of segments that they told their peers of.

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "ipc/channel/link.hpp"
#include "memory/lent.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::detail::channel {

/// Throw invalid_argument, in the name of `operation`, for what is no socket that a link can speak over.
void check_socket(const char* operation, int socket);

/// Make a link over a connected socket, and greet the peer. If that fails for want of a file, `socket` is left as it
/// was. A link that borrows nothing ends when the peer lends. For one of a pair of sockets, the kernel knows only who
/// made the pair: then say whose the peer is, if that is known. At most `most_sent` buffers are on their way to the
/// peer, even if it wants more.
[[nodiscard]] std::shared_ptr<Link> make_link(spi::StrangerFd&& socket, std::uint32_t window,
                                              Borrows what = Borrows::buffers, std::optional<uid_t> user = {},
                                              std::uint32_t most_sent = most_window);

/// Tell the peers that know the segment of its end. Called before any of them does, by an owner of the segment.
void tell_of_its_end(spi::Segment& segment);

/// Add the buffers that peers have, over all connections.
void list_lent(LentList& lent);

}  // namespace weir::detail::channel
