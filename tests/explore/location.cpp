// SPDX-License-Identifier: Apache-2.0
#include "location.hpp"

#include "engine.hpp"
#include "sanitizers.hpp"

namespace weir::explore {
namespace {

// The memory of a destroyed one is kept, but the address sanitizer is told that nobody may use it.
template <class T>
#if defined(WEIR_EXPLORE_ASAN)
[[gnu::no_sanitize_address]]
#endif
T peek(const T& member) noexcept {
  return member;
}

}  // namespace

std::string Location::text() const {
  const char* const given = peek(name);
  return given ? given : '#' + std::to_string(peek(id));
}

Location::~Location() {
  if (running) running->destroy(*this);
  die();
}

// By a volatile access, because a compiler drops stores to an object that is about to end.
void Location::die() noexcept { *static_cast<volatile std::uint32_t*>(&mark_) = dead; }

bool Location::is_alive() const noexcept {
  return !is_poisoned(&mark_) && *static_cast<const volatile std::uint32_t*>(&mark_) == alive;
}

}  // namespace weir::explore
