// SPDX-License-Identifier: Apache-2.0
#pragma once
// Write a trace of what a program does with a resource, to read it or to replay it with `weir replay`. docs/traces.md
// says what a trace looks like.

#include <cstddef>
#include <iosfwd>
#include <memory>
#include <string>

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// Options of make_logging.
struct LoggingOptions {
  /// How many bytes of lines are collected before they are written. With 0 each line is written at once, so that a
  /// process that is killed has left every line.
  std::size_t buffer_bytes = std::size_t{64} << 10;
};

/// A resource that passes every operation on and writes a line for it: for each allocation, with the reason if it
/// fails; for each close; for each use on another stream, when the buffer is closed; and for each trim. Buffers of zero
/// bytes leave no line, because no resource sees them.
///
/// Lines are written whole, and never under a lock that an allocation needs. The thread that fills a buffer writes it.
/// Another thread waits only if it fills the second of two buffers while the first is still being written. Collected
/// lines are written at the latest when the resource ends, with its last handle and its last buffer. A failure to write
/// is reported once, and from then on nothing is written; no operation fails because of it. A forked child writes
/// nothing.
class WEIR_API LoggingResource : public MemoryResource {
 public:
  /// Write the collected lines, and wait until they are written.
  virtual void flush() noexcept = 0;

 protected:
  using MemoryResource::MemoryResource;
};
/// Handle of a LoggingResource.
using LoggingPtr = std::shared_ptr<LoggingResource>;

/// Make "log(upstream)", which writes to the file `path`; the file is created or emptied. Throws std::system_error when
/// that fails, and invalid_argument when `upstream` is null.
[[nodiscard]] WEIR_API LoggingPtr make_logging(ResourcePtr upstream, const std::string& path,
                                               const LoggingOptions& options = {});
/// The same, writing to `stream`. The resource keeps `stream` alive and uses it on one thread at a time.
[[nodiscard]] WEIR_API LoggingPtr make_logging(ResourcePtr upstream, std::shared_ptr<std::ostream> stream,
                                               const LoggingOptions& options = {});

}  // namespace weir
