// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of weir for the containers of the standard library.

#include <cstddef>
#include <memory>
#include <memory_resource>

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir {

/// A `std::pmr::memory_resource` over a resource whose memory the host can access: pinned memory for vectors that are
/// copied at full speed, memory that is limited or counted, or memory that a GPU reads.
///
/// The calling thread may use the memory at once. When upstream gives memory behind a point that is not complete yet,
/// the call waits for that point (a pool gives such memory only where it would otherwise fail). Give memory back only
/// when no GPU uses it any more, because weir knows of no such use. Thread-safe. Alignments are honoured up to 1 GiB.
/// Zero bytes have an address, too.
///
/// Each block is a Buffer of upstream and takes as much memory as one, at least 256 bytes. For many small blocks, put a
/// `std::pmr::unsynchronized_pool_resource` over this one. BufferTable says what finding the Buffer again costs.
///
/// Throws what upstream throws; OutOfMemory is a std::bad_alloc. Containers hold this object by its address, as they
/// hold every memory_resource. The destructor closes what was not given back.
class WEIR_API PmrResource final : public std::pmr::memory_resource {
 public:
  /// Throws unsupported when the host cannot access the memory; the message names the kinds of the device's memory that
  /// the host can access. Throws invalid_argument for null.
  explicit PmrResource(ResourcePtr upstream);
  PmrResource(const PmrResource&) = delete;
  PmrResource& operator=(const PmrResource&) = delete;
  ~PmrResource() override;

  [[nodiscard]] ResourcePtr upstream() const;  ///< where the memory comes from

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  /// Give memory back. An address that did not come from here is left as it is and reported to the failure sink.
  void do_deallocate(void* address, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir
