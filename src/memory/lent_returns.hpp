// SPDX-License-Identifier: Apache-2.0
#pragma once
// The moment at which lent memory comes back, for those who wait for it.

#include <cstdint>

#include "weir/spi/sync.hpp"

namespace weir::detail {

/// While an object of this class exists, memory is on its way from a borrower to its resource. Whoever takes a loan off
/// its list makes one before, under the lock of the list, and ends it once the memory is back. So those who wait notice
/// memory that is in no list and not yet back. Its thread ends it.
class Returning {
 public:
  Returning() noexcept;
  ~Returning();
  Returning(const Returning&) = delete;
  Returning& operator=(const Returning&) = delete;

 private:
  const std::uint32_t process_;
  const bool before_;  // whether the thread was bringing memory back already
};

/// Return how many times memory has come back so far. Changes once the memory is back.
[[nodiscard]] std::uint32_t lent_returns() noexcept;
/// Return whether memory is on its way. To miss nothing, ask lent_returns() first, then the lists of loans, then this.
[[nodiscard]] bool some_return() noexcept;
/// Wait until lent_returns() is no longer `seen`, but not beyond `until`; max() is endless.
void wait_for_return(std::uint32_t seen, sync::Clock::time_point until) noexcept;
/// Return whether this thread may wait for that: a thread that brings memory back may not, nor may threads of the
/// library.
[[nodiscard]] bool may_wait_for_returns() noexcept;

}  // namespace weir::detail
