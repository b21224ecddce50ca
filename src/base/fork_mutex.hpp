// SPDX-License-Identifier: Apache-2.0
#pragma once
// A mutex that the fork handlers hold across a fork, so that no thread leaves it locked in the parent or in the child.

#include "base/forks.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {

/// For objects that need no more than a free mutex to be in order in a forked child. While a thread holds it, that
/// thread takes no other lock of the library and calls neither a driver nor a user's function.
class ForkMutex : public sync::Mutex {
 private:
  friend class spi::ForkLink;
  void fork(spi::ForkMoment moment) noexcept { hold_across_fork(static_cast<sync::Mutex&>(*this), moment); }

  spi::ForkLink link_{*this};  // the last member, as ForkLink requires
};

}  // namespace weir::detail
