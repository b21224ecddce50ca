// SPDX-License-Identifier: Apache-2.0
#pragma once
// A mutex that nobody holds when the process forks, in either process.

#include "base/forks.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {

/// For objects that are in order in a forked child as soon as their mutex is free. No other lock of the library is taken
/// while it is held, and no driver or user's function is called.
class ForkMutex : public sync::Mutex {
 private:
  friend class spi::ForkLink;
  void fork(spi::ForkMoment moment) noexcept { hold_across_fork(static_cast<sync::Mutex&>(*this), moment); }

  spi::ForkLink link_{*this};  // last
};

}  // namespace weir::detail
