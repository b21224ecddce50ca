// SPDX-License-Identifier: Apache-2.0
#pragma once
// The handlers of fork(), and what belongs to the library as a whole.

#include <cstdint>

#include "weir/spi/fork_link.hpp"

namespace weir::detail {

/// Counts the forks between this process and the first one that had the library; never 0. Changes only in the handler
/// of a new child, where nobody else runs.
inline constinit std::uint32_t fork_generation = 1;

// What there is once in the library, each beside its lock. Called in this order before a fork, in the reverse order
// after it.
void fork_leases(spi::ForkMoment moment) noexcept;
void fork_attachments(spi::ForkMoment moment) noexcept;
void fork_pools(spi::ForkMoment moment) noexcept;
void fork_external(spi::ForkMoment moment) noexcept;
void fork_staging(spi::ForkMoment moment) noexcept;
void fork_releases(spi::ForkMoment moment) noexcept;
void fork_watcher(spi::ForkMoment moment) noexcept;
void fork_registry(spi::ForkMoment moment) noexcept;
/// Of what closes files. Last before a fork: whoever ends something inside another lock may hand a file over.
void fork_closer(spi::ForkMoment moment) noexcept;

}  // namespace weir::detail
