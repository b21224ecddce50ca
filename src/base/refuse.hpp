// SPDX-License-Identifier: Apache-2.0
#pragma once
// How arguments are refused.

#include <string>

#include "weir/error.hpp"

namespace weir::detail {

/// Throw invalid_argument with "<what>: <why>".
[[noreturn]] inline void refuse(const std::string& what, const std::string& why) {
  throw Error(Errc::invalid_argument, what + ": " + why);
}

}  // namespace weir::detail
