// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "ipc/channel/link.hpp"
#include "memory/lent_returns.hpp"

namespace weir::detail::channel {

/// Buffers and segments that a peer has given back. Their ends may take locks of anybody. Takes no memory to make one.
struct Link::Dropped {
  /// Lent memory comes back in this, from now on.
  void begin_return() {
    if (!returning) returning.emplace();
  }
  std::optional<Returning> returning;  // ends last
  std::vector<Lent> lent;
  std::vector<Lender<Lent>::Slot> all_lent;
  decltype(std::declval<Borrower<ForeignMemory>>().end()) all_foreign;
  std::vector<ForeignMemory> foreign;
  std::list<Arrived> arrived;
  std::vector<spi::StrangerFd> files;
};

}  // namespace weir::detail::channel
