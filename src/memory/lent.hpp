// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that somebody outside the library uses, such as another process, is free again at a moment that nobody here
// chooses. Whoever lends it out answers here; whoever needs memory asks.

namespace weir::detail {

/// Give back what has come back. False when there was nothing to look at.
using SettleLent = bool (*)();

/// From now on settle_lent() asks `settle`. There is one way of lending.
void answer_for_lent(SettleLent settle) noexcept;

/// Have everything that came back before this call given back. False when nobody has lent anything.
bool settle_lent();

}  // namespace weir::detail
