// SPDX-License-Identifier: Apache-2.0
#pragma once
// Why a peer is served no more, where no call of the user's could say so.

namespace weir::detail {

/// Report the exception that is being handled, unless the peer caused it: what strangers do is not reported.
void report_own_failure(const char* where) noexcept;

}  // namespace weir::detail
