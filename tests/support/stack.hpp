// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resources over resources, for the suites: a stack is put over the plain resource of some memories, which then appear
// among `memories()` a second time. A pool or an adaptor joins every suite by one line in stack.cpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "weir/memory_resource.hpp"

namespace weir::test {

struct Memory;

struct Stack {
  std::string_view name;                     ///< appended to the memory's name: "host_0_shared_forwarded3"
  std::size_t layers;                        ///< resources above the plain one
  bool transparent;                          ///< name, counters and errors are those of the plain one
  ResourcePtr (*over)(ResourcePtr plain);    ///< the uppermost resource
  bool (*stands_on)(const Memory& plain);    ///< which memories it is tried on
};

/// All of them, or those that `WEIR_STACKS` names, separated by commas.
std::span<const Stack> stacks();

/// What decides the order in stacks of a random one: `WEIR_STACK_SEED`, or 1.
std::uint64_t stack_seed();

}  // namespace weir::test
