// SPDX-License-Identifier: Apache-2.0
// What sanitizers do not let forked children do. Needs WEIR_SANITIZERS, with which the tests are built.
#include <string>
#include <string_view>

#include "run.hpp"

namespace weir::test {

std::string no_forks_because() {
  constexpr std::string_view built_with = WEIR_SANITIZERS;
  if (built_with.find("thread") != built_with.npos) return "ThreadSanitizer ends a forked child that starts a thread";
  if (built_with.find("address") != built_with.npos) {
    return "AddressSanitizer's allocator has no fork handlers: what a thread had locked stays locked in the child";
  }
  return {};
}

}  // namespace weir::test
