// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that is lent to somebody outside the library, such as another process, is free again at a moment that nobody
// here chooses. The code that lends memory registers a function here, and code that needs memory has it called.

namespace weir::detail {

/// A function that gives memory back to its resource once the borrower has returned it. Returns false when there was
/// nothing to look at.
using SettleLent = bool (*)();

/// Have settle_lent() call `settle` from now on. There is room for one function, which knows every way of lending.
void answer_for_lent(SettleLent settle) noexcept;

/// Have all memory that was returned before this call given back to its resource. Return false when nothing is lent.
bool settle_lent();

}  // namespace weir::detail
