// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps failures from the user's sink as long as a thread has locks or a turn.

#include <string>
#include <system_error>
#include <vector>

#include "weir/error.hpp"

namespace weir::detail {

/// While objects of this class live, report() keeps the failures of their thread, and the end of the outermost one
/// tells the sink of them. The sink is a user's function, which may call what the locks and turns of this thread guard:
/// so an object is declared before those under which something may fail. A failure that there is no memory to keep is
/// told at once. Objects are destroyed by the thread that made them, the latest one first.
class ReportsLater {
 public:
  ReportsLater() noexcept;
  ReportsLater(const ReportsLater&) = delete;
  ReportsLater& operator=(const ReportsLater&) = delete;
  ~ReportsLater();

  /// Return whether the end of this object has nothing to tell.
  [[nodiscard]] bool empty() const noexcept { return kept_.empty(); }
  /// Return false if the failure is to be told now.
  [[nodiscard]] static bool keep(const Failure& failure) noexcept;

 private:
  struct Kept {
    std::error_code code;
    std::string where, message;
  };
  std::vector<Kept> kept_;  // of the outermost object
};

}  // namespace weir::detail
