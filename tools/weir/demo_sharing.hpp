// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ways of sharing that the demo shows with processes of their own. Each returns whether everybody saw the right
// bytes; what fails is said on stderr.

#include <chrono>
#include <cstddef>

#include "commands.hpp"
#include "weir/weir.hpp"

namespace weir::cli {

inline constexpr std::size_t demo_frames = 32;
inline constexpr std::size_t demo_frame_bytes = std::size_t{1} << 20;
inline constexpr char demo_name[] = "tensor";
/// How long a process of the demo waits for another one.
inline constexpr std::chrono::milliseconds patience{30'000};

/// Memory that other processes can open.
struct SharedMemory {
  Device device;
  MemoryKind kind;
  Stream stream;
  [[nodiscard]] ResourcePtr resource() const { return make_resource(device, kind, {.exportable = true}); }
};

/// A server publishes a tensor; another process gets it by its name, checks and changes it.
bool share_by_name(const SharedMemory& memory, const Program& program);
/// A producer publishes frames; two other processes see each of them in place.
bool share_by_ring(const SharedMemory& memory, const Program& program);
/// `weir hold` keeps the set of a process that is killed; this process has it back.
bool share_by_set(const SharedMemory& memory, const Program& program);

}  // namespace weir::cli
