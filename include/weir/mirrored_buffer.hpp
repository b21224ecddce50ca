// SPDX-License-Identifier: Apache-2.0
#pragma once
// The same bytes on several streams or devices. First, read buffer.hpp.

#include <cstddef>
#include <span>
#include <vector>

#include "weir/buffer.hpp"
#include "weir/export.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

namespace weir {

/// One logical buffer with a copy for each of several streams. Each copy is written and read in order of its own
/// stream. Nothing keeps the copies equal but write() and broadcast(): a kernel that changes one of them changes that
/// one alone. Move-only. Throws invalid_argument for an index of no copy, in every call that takes one. After a move,
/// everything but size() and copies() throws closed.
class WEIR_API MirroredBuffer {
 public:
  /// Allocate `bytes` bytes for each stream, in order of that stream, of the default kind of its device. Several
  /// streams may be of one device, and one stream may be named several times. Throws invalid_argument when there is no
  /// stream, closed for one that was moved from, and OutOfMemory; nothing is left allocated then.
  MirroredBuffer(std::size_t bytes, std::vector<Stream> streams);
  /// The same from `resources`, of which there is one for each stream and none is null, else invalid_argument.
  MirroredBuffer(std::size_t bytes, std::vector<Stream> streams, std::span<const ResourcePtr> resources);

  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }             ///< bytes of each copy
  [[nodiscard]] std::size_t copies() const noexcept { return streams_.size(); }  ///< how many there are
  [[nodiscard]] const Stream& stream(std::size_t index) const;                   ///< that orders a copy
  [[nodiscard]] const Buffer& copy(std::size_t index) const;                     ///< for kernels, copies and views
  [[nodiscard]] Buffer& copy(std::size_t index);                                 ///< to write one copy

  /// Return the index of a copy to work on: one whose stream has nothing pending, else the copies in turn. Throws
  /// device_lost when a stream that it looks at is lost.
  [[nodiscard]] std::size_t any();

  /// Enqueue a write of all copies, each on its own stream. `bytes` has been read when the call returns, and has size()
  /// bytes, else invalid_argument. All streams and copies are looked at first: a call that throws invalid_argument or
  /// closed has written nothing. When a driver refuses one of the copies, those before it are written.
  void write(std::span<const std::byte> bytes);
  /// The same for one copy.
  void write(std::span<const std::byte> bytes, std::size_t index);
  /// Enqueue a read of one copy into `bytes`, which has size() bytes and stays valid until stream(index) has passed
  /// this point.
  void read(std::span<std::byte> bytes, std::size_t index) const;
  /// Enqueue a read of every copy, one behind the other, into `bytes`, which has size() times copies() bytes and stays
  /// valid until all streams have passed this point, also if this throws: then some reads may have been enqueued.
  void read_all(std::span<std::byte> bytes) const;
  /// Enqueue a copy of the copy at `index` to all others, each on the stream that orders it. The others are written
  /// after everything on stream(index) so far, and later work there comes after their reads.
  void broadcast(std::size_t index);

  /// Block until everything put on all streams so far is complete. Throws device_lost.
  void synchronize() const;
  /// Close all copies, as Buffer::close does. Everything but size(), copies(), stream() and copy() throws closed
  /// afterwards, whatever else is wrong with the call.
  void close() noexcept;

 private:
  void check_index(const char* operation, std::size_t index) const;
  void check_open(const char* operation, std::size_t index) const;
  void check_all_open(const char* operation) const;
  void check_size(const char* operation, std::size_t given, std::size_t expected) const;

  std::size_t bytes_ = 0;
  std::size_t next_ = 0;  ///< of any()
  std::vector<Stream> streams_;
  std::vector<Buffer> copies_;  ///< as many
};

}  // namespace weir
