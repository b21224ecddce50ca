// SPDX-License-Identifier: Apache-2.0
#pragma once
// Finds Buffers by their address, for interfaces that give memory back as a bare pointer. Used by pmr.hpp and
// cuda_allocator.hpp, and so by cccl.hpp.

#include <cstddef>
#include <memory>

#include "weir/buffer.hpp"
#include "weir/export.hpp"

namespace weir {

/// Keeps a Buffer for each address. Thread-safe; the addresses are spread over 64 locks. Once the table has held as
/// many buffers before, it needs no malloc, and at most 107 bytes per buffer. The destructor closes the buffers that
/// are left.
class WEIR_API BufferTable {
 public:
  /// Make an empty table.
  BufferTable();
  BufferTable(const BufferTable&) = delete;
  BufferTable& operator=(const BufferTable&) = delete;
  ~BufferTable();

  /// Keep `buffer` under `address`, which must not be null and must have no buffer here yet. `tag` is the caller's, and
  /// comes back with the buffer. If this throws std::bad_alloc, `buffer` was closed.
  void insert(const void* address, Buffer buffer, void* tag = nullptr);
  /// Take out and return the buffer under `address`, and its tag; a closed Buffer when there is none. `*tag` is written
  /// only if there is one.
  [[nodiscard]] Buffer take(const void* address, void** tag = nullptr) noexcept;
  /// Return the number of buffers that the table holds.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir
