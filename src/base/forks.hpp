// SPDX-License-Identifier: Apache-2.0
#pragma once
// The handlers of fork(), and how what exists once in the library takes part in them. Objects of which there are many
// have a ForkLink instead.

#include <cstddef>
#include <cstdint>

#include "weir/spi/fork_link.hpp"

namespace weir::detail {

/// Counts the forks between this process and the first one that had the library; never 0. Changes only in the handler
/// of a new child, where nobody else runs.
inline constinit std::uint32_t fork_generation = 1;

/// A static object beside a lock of which there is one. `step(moment)` takes that lock before a fork and gives it back
/// after it. Before a fork the steps come in the order of their places, then every ForkLink, then the step that is
/// last; after it in the reverse order. A lock that is held while another is taken has the smaller place.
class ForkStep {
 public:
  using Step = void (*)(spi::ForkMoment) noexcept;
  static constexpr std::size_t last = 9;

  /// Made when the library is loaded, never later. One for each place.
  ForkStep(std::size_t place, Step step) noexcept;
};

/// All that most steps and links do.
template <class Lock>
void hold_across_fork(Lock& lock, spi::ForkMoment moment) noexcept {
  moment == spi::ForkMoment::before ? lock.lock() : lock.unlock();
}

}  // namespace weir::detail
