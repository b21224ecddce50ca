// SPDX-License-Identifier: Apache-2.0
#pragma once
// The subcommands. Each returns the exit status of the program.

#include <span>

namespace weir::cli {

/// List backends, devices and kinds of memory, as text or as one JSON document.
int devices(bool json);

/// Allocate, fill, copy and share on every device present; check every byte; print times. Returns nonzero on any
/// mismatch.
int demo();

/// Replay a trace on a resource, as in docs/traces.md. Returns nonzero when an operation failed.
int replay(std::span<char*> arguments);

/// Run the second process of `demo`: open what comes over the socket `fd`, check it and change it.
int demo_peer(int fd);

}  // namespace weir::cli
