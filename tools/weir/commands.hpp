// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line and its subcommands. Each returns the exit status of the program.

#include <span>
#include <string>
#include <vector>

namespace weir::cli {

/// How to start this command line in another process: the path of an executable, and the words before the arguments.
using Program = std::vector<std::string>;

/// Run the command line with the words behind the program's name. What a subcommand throws is printed. Output that
/// could not be written is a failure, too.
int run(std::span<char*> arguments, const Program& program);

/// List backends, devices and kinds of memory, as text or as one JSON document.
int devices(bool json);

/// Allocate, fill, copy and share on every device present; check every byte; print times. Returns nonzero on any
/// mismatch. `program` is for the other processes.
int demo(const Program& program);

/// Replay a trace on a resource, as in docs/traces.md. Returns nonzero when an operation failed.
int replay(std::span<char*> arguments);

/// Keep sets of tensors at a socket, until a signal ends that. Says one line once it serves.
int hold(std::span<char*> arguments);

/// Serve, list and read tensors that have names, as in docs/ipc.md.
int names(std::span<char*> arguments);

/// Run another process of `demo`, which shares as the words say; see demo_sharing.hpp.
int demo_visitor(std::span<char*> arguments);

/// Run the second process of `demo`: open what comes over the socket `fd`, check it and change it.
int demo_peer(int fd);

}  // namespace weir::cli
