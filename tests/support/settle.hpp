// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the library does behind its callers' backs, waited for.

namespace weir::test {

/// Wait until memory is given back that was closed before this call, on every device, whichever resource it is of; and so
/// what its end closes.
void await_releases();

/// Wait until the library's threads have run out of work and have ended, but not for long: some tests leave streams that
/// stand still.
void await_threads();

}  // namespace weir::test
