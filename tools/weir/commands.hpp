// SPDX-License-Identifier: Apache-2.0
#pragma once
// The subcommands. Each returns the exit status of the program.

#include <span>

namespace weir::cli {

/// List backends, devices and kinds of memory, as text or as one JSON document.
int devices(bool json);

/// Allocate, fill, copy and share on every device present, check every byte, print times. Not 0 on any mismatch.
int demo();

/// Replay a trace on a resource; docs/traces.md. Not 0 when an operation failed.
int replay(std::span<char*> arguments);

/// The second process of `demo`: opens what comes over the socket `fd`, checks it and changes it.
int demo_peer(int fd);

}  // namespace weir::cli
