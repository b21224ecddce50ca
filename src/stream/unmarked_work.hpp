// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether an application's stream may have work that the last mark of its timeline does not cover.

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// A flag that a thread raises after work was put on the stream, before it reads the timeline's last value. A thread
/// that marks the timeline gives out a new value, then takes the flag, and records an event if the flag was up.
/// Invariant: work before an add() is covered by the event of the first mark whose value is larger than the one that
/// was read after the add(), or by an earlier event. Both steps are read-modify-writes, so one of them comes first: if
/// add() does, the flag is taken up and the event comes later. Otherwise the thread that adds reads the new value, and
/// the next mark covers its work.
class UnmarkedWork {
 public:
  void add() noexcept { some_.exchange(true, std::memory_order_acq_rel); }
  /// Return whether there is any, and forget it.
  [[nodiscard]] bool take() noexcept { return some_.exchange(false, std::memory_order_acq_rel); }

 private:
  sync::Atomic<bool> some_{true};
};

}  // namespace weir::detail
