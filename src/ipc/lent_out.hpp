// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that other processes have, in whichever way it went there.

#include "memory/lent.hpp"

namespace weir::detail {

/// What answers for all of it, for answer_for_lent().
extern const LentAnswers lent_out;

}  // namespace weir::detail
