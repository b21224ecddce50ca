// SPDX-License-Identifier: Apache-2.0
#pragma once
// The handlers of fork(), and how objects that exist once in the library take part in them. Objects of which there are
// many have a ForkLink instead.

#include <cstddef>
#include <cstdint>

#include "weir/spi/fork_link.hpp"

namespace weir::detail {

/// One more than the number of forks between the first process that had the library and this one; so it is never 0. It
/// changes only in the handler of a new child, where no other thread runs.
inline constinit std::uint32_t fork_generation = 1;

/// A static object that accompanies a lock that exists once in the library. `step(moment)` takes that lock before a
/// fork and releases it afterwards. Before a fork the steps run in the order of their places, then every ForkLink, then
/// the step at place `last`. After the fork the order is reversed. If one lock is held while another is taken, the
/// first of them has the smaller place. A step also makes sure that its object is made: a fork in the middle of that
/// would leave the child without it, waiting for the thread that was making it.
class ForkStep {
 public:
  using Step = void (*)(spi::ForkMoment) noexcept;
  static constexpr std::size_t last = 14;

  /// Register `step` at `place`. Do this only while the library is loaded, never later, and once for each place.
  ForkStep(std::size_t place, Step step) noexcept;
};

/// Lock `lock` before a fork and unlock it afterwards. Most steps and links do nothing else.
template <class Lock>
void hold_across_fork(Lock& lock, spi::ForkMoment moment) noexcept {
  moment == spi::ForkMoment::before ? lock.lock() : lock.unlock();
}

}  // namespace weir::detail
