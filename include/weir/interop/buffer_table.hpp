// SPDX-License-Identifier: Apache-2.0
#pragma once
// Buffers found by their address, for interfaces that give memory back as a bare pointer. Used by pmr.hpp,
// cuda_allocator.hpp and through it cccl.hpp.

#include <cstddef>
#include <memory>

#include "weir/buffer.hpp"

namespace weir {

/// Keeps a Buffer for each address. Thread-safe; addresses are spread over 16 locks. Takes no malloc and at
/// most 86 bytes per buffer once it held as many before. Its end closes what it still holds.
class BufferTable {
 public:
  BufferTable();
  BufferTable(const BufferTable&) = delete;
  BufferTable& operator=(const BufferTable&) = delete;
  ~BufferTable();

  /// Keep `buffer` under `address`, which is not null and names nothing here yet. Throws std::bad_alloc, and
  /// then closed it.
  void insert(const void* address, Buffer buffer);
  /// What was put under `address`, which then names nothing any more; a closed Buffer when nothing was.
  [[nodiscard]] Buffer take(const void* address) noexcept;
  /// Count of buffers that are held.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir
