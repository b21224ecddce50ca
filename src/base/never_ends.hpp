// SPDX-License-Identifier: Apache-2.0
#pragma once
// Objects of the whole process that no destructor ends, because buffers may outlive main.

#include <cstddef>
#include <new>

namespace weir::detail {

/// The only T of the process, made when it is asked for first. That asks for no memory unless T does.
template <class T>
T& never_ends() {
  alignas(T) static std::byte place[sizeof(T)];
  static T& object = *new (place) T;
  return object;
}

}  // namespace weir::detail
