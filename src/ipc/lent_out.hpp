// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that other processes have, in whichever way it went there.

namespace weir::detail {

/// Take back what other processes have given back before this call. Return false when there was nothing to look at. This
/// is the function of memory/lent.hpp.
bool settle_lent_out();

}  // namespace weir::detail
