// SPDX-License-Identifier: Apache-2.0
// What sanitizers do not let programs do. Needs WEIR_SANITIZERS, those with which the tests are built.
#include <string>
#include <string_view>

#include "run.hpp"

namespace weir::test {
namespace {

bool built_with(std::string_view sanitizer) {
  return std::string_view(WEIR_SANITIZERS).find(sanitizer) != std::string_view::npos;
}

}  // namespace

std::string no_forks_because() {
  if (built_with("thread")) return "ThreadSanitizer ends a forked child that starts a thread";
  if (built_with("address")) {
    return "AddressSanitizer's allocator has no fork handlers: what a thread had locked stays locked in the child";
  }
  return {};
}

std::string no_end_of_main_thread_because() {
  return built_with("thread") ? "ThreadSanitizer does not let anybody join the main thread" : "";
}

std::string no_thread_locals_because() {
  return built_with("thread") ? "ThreadSanitizer takes the ends of thread-local objects in loaded libraries for races"
                              : "";
}

}  // namespace weir::test
