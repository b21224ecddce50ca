// SPDX-License-Identifier: Apache-2.0
#pragma once
// Mapped memory has two sides here, as a machine with caches may have: the host reads and writes one, the device the
// other. What no rule carries over does not arrive, and tests then see stale bytes.

#include <cstddef>
#include <vector>

#include "world.hpp"

namespace judge {

/// nonCoherentAtomSize as it is reported: the largest that the specification allows.
inline constexpr Bytes atom = 256;

struct Mapping {
  Mapping(std::byte* driver, Bytes bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// What the device wrote, and the host side does not have yet.
  struct Pending {
    Bytes begin, end;
    Access write;
  };

  std::byte* const device;  ///< where the driver mapped it
  std::byte* const host;    ///< what the program got
  std::byte* const common;  ///< what both had when bytes last went over: the host wrote where its side differs
  const Bytes size;
  std::vector<Pending> pending;
  Ranges<bool> begun;    ///< went over before: elsewhere the sides have nothing in common yet
  Ranges<bool> arrived;  ///< of memory that is not coherent: available to the host, to be invalidated
};

/// The device is about to touch bytes: what the host wrote there goes over, or should have been flushed.
void host_to_device(Memory& memory, Bytes begin, Bytes end, const char* call);
/// It will have written them.
void device_wrote(const std::shared_ptr<Memory>& memory, Bytes begin, Bytes end, const Access& write);
/// The host has seen more of the device's work.
void device_to_host();

// For memory that is not coherent.
/// Carry over what the host wrote. Caches write back whole lines: where the device wrote, and the host has not
/// invalidated, whole atoms go over, with the stale bytes that lie in them.
void flush(Memory& memory, Bytes begin, Bytes end);
/// Carry over what the device wrote and a barrier made available to the host.
void invalidate(Memory& memory, Bytes begin, Bytes end);

}  // namespace judge
