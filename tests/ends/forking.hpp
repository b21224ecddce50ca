// SPDX-License-Identifier: Apache-2.0
#pragma once
// For programs that fork: children with their own watchdog, and checks that end them.

#include <sys/types.h>

#include <cstdio>
#include <functional>
#include <string>

#include "things.hpp"
#include "weir/error.hpp"

namespace weir::test {

/// Fork; the child runs `body` and ends at once with code 0, or with a line on stderr when an exception leaves it. A
/// child that hangs is ended by SIGALRM after 20 seconds.
pid_t fork_child(const std::function<void()>& body);
/// Wait for it and end this process, with a line on stderr, unless it ended with code 0.
void join_child(pid_t child);
inline void in_child(const std::function<void()>& body) { join_child(fork_child(body)); }

/// End this process with a line on stderr, which says where this was asked, unless `condition`.
void require(bool condition, const char* what, const char* file = __builtin_FILE(),
             int line = __builtin_LINE());

/// Require that `condition` holds within 20 seconds.
void require_soon(const char* what, const std::function<bool()>& condition, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE());

/// Require that `action` throws weir::Error of `condition` and a message with `text`.
void require_error(const char* what, Errc condition, const char* text, const std::function<void()>& action);

/// Whether all bytes of `buffer`, which the host reaches, are `value`.
bool holds(const Buffer& buffer, std::byte value);

/// Everything that has to work with host memory, from nothing.
void use_host();

/// Remembers which libraries are loaded. Later, calls into those that came since then end the process.
class Libraries {
 public:
  Libraries();
  void forbid_new_ones() const;  ///< returns when their code cannot be run any more
 private:
  std::vector<std::string> known_;
};

}  // namespace weir::test
