// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of weir for the containers of the standard library.

#include <cstddef>
#include <memory>
#include <memory_resource>

#include "weir/memory_resource.hpp"

namespace weir {

/// A `std::pmr::memory_resource` over a resource whose memory the host can access: pinned memory for vectors
/// that copies read at full speed, memory that is limited or counted, memory that a GPU reads.
///
/// What it allocates, the calling thread may use at once: when upstream gives memory behind a point that is
/// not over (a pool does so only rather than fail), the call waits for that point. Give memory back when no
/// GPU uses it any more: weir knows of no use. Thread-safe. Alignments are honoured up to 1 GiB; zero bytes
/// have an address, too.
///
/// Each block is a Buffer of upstream and as large as one, 256 bytes at least: put a
/// `std::pmr::unsynchronized_pool_resource` over this for many small ones. BufferTable says what finding the
/// Buffer again takes.
///
/// Throws what upstream throws; OutOfMemory is a std::bad_alloc. Containers hold this object by its address,
/// like every memory_resource. Its end closes what was not given back.
class PmrResource final : public std::pmr::memory_resource {
 public:
  /// Throws unsupported, naming the kinds that the device has, when the host cannot access the memory; and
  /// invalid_argument for null.
  explicit PmrResource(ResourcePtr upstream);
  PmrResource(const PmrResource&) = delete;
  PmrResource& operator=(const PmrResource&) = delete;
  ~PmrResource() override;

  [[nodiscard]] ResourcePtr upstream() const;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  /// A pointer that did not come from here goes to the failure sink.
  void do_deallocate(void* address, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir
