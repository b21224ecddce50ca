// SPDX-License-Identifier: Apache-2.0
// Nothing forks here.
#include "base/forks.hpp"

weir::detail::ForkStep::ForkStep(std::size_t /*place*/, Step /*step*/) noexcept {}
