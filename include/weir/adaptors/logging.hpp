// SPDX-License-Identifier: Apache-2.0
#pragma once
// Write down what a program does with a resource, to look at or to play again: `weir replay`. docs/traces.md
// says what a trace looks like.

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>

#include "weir/memory_resource.hpp"

namespace weir {

struct LoggingOptions {
  /// Lines are collected up to so many bytes before they are written. 0 writes each at once, so that a
  /// process that is killed has left every line.
  std::size_t buffer_bytes = std::size_t{64} << 10;
};

/// A resource that passes everything on and writes a line for it: allocations, also those that fail and why,
/// closes, uses on other streams (when the buffer is closed), trims. Buffers of zero bytes leave no line: no
/// resource sees them.
///
/// Lines are written whole, and never under a lock that an allocation needs; only who fills the second of two
/// buffers while the first is still being written waits. What is collected is written at the latest when the
/// resource ends: with its last handle and buffer. When writing fails, that is reported once, and from then
/// on nothing is written; no operation fails because of it. A forked child writes nothing.
class LoggingResource : public MemoryResource {
 public:
  /// Write what is collected, and wait until it is written.
  virtual void flush() noexcept = 0;

 protected:
  using MemoryResource::MemoryResource;
};
using LoggingPtr = std::shared_ptr<LoggingResource>;

/// Over `upstream`, to a file that is made or emptied. Throws std::system_error when that fails,
/// invalid_argument.
[[nodiscard]] LoggingPtr make_logging(ResourcePtr upstream, const std::string& path,
                                      const LoggingOptions& options = {});
/// To a stream, which is used by one thread at a time and lives at least as long as the resource.
[[nodiscard]] LoggingPtr make_logging(ResourcePtr upstream, std::shared_ptr<std::ostream> stream,
                                      const LoggingOptions& options = {});

}  // namespace weir
