// SPDX-License-Identifier: Apache-2.0
#pragma once
// Process-wide objects that are never destroyed, because buffers may outlive main.

#include <cstddef>
#include <new>

namespace weir::detail {

/// Return the process's only T, which the first call makes. Needs no heap memory unless T's constructor does.
template <class T>
T& never_ends() {
  alignas(T) static std::byte place[sizeof(T)];
  static T& object = *new (place) T;
  return object;
}

}  // namespace weir::detail
