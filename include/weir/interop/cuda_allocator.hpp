// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of weir for interfaces of bare pointers and CUstreams: hooks of frameworks, and cccl.hpp.

#include <cstddef>
#include <memory>

#include "weir/cuda.hpp"
#include "weir/memory_resource.hpp"

namespace weir::cuda {

/// Hands out addresses of a resource's buffers in the order of the application's streams, as cudaMallocAsync
/// does: memory is usable on the stream that it was allocated for; given back on a stream, it is reused after
/// what that stream has by then. What a stream gave back it gets again without a wait; other streams get it
/// when it is over, or wait on the device, as the resource decides.
///
/// Streams may end when the application likes, also with memory allocated for them, and their handles be used
/// again: the driver is asked about a stream only in calls that name that stream. Each of the last 64 streams has
/// one of weir's own beside it, on which its memory is allocated. Null and the legacy and per-thread handles mean
/// those of the resource's device; of the first device, for host memory. Thread-safe. Its end closes what was
/// not given back.
class Allocator {
 public:
  /// Over memory of a CUDA device or of the host. Throws unsupported for another, invalid_argument for null.
  explicit Allocator(ResourcePtr resource);
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator();

  /// Memory for use on `stream`; null for zero bytes. Throws what MemoryResource::allocate throws, and
  /// unsupported when the stream is being captured and would have to wait.
  [[nodiscard]] void* allocate(CUstream_st* stream, std::size_t bytes,
                               std::size_t alignment = default_alignment);
  /// Give it back after everything on `stream` so far, which need not be the stream that it was allocated
  /// for. What cannot be ordered so, because the stream is being captured, is leaked and reported; so is an
  /// address that did not come from here.
  void deallocate(CUstream_st* stream, void* address) noexcept;

  /// Memory that every stream and the host may use at once; the call waits where it has to.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment);
  /// Give back what no stream uses any more.
  void deallocate_sync(void* address) noexcept;

  [[nodiscard]] const ResourcePtr& resource() const noexcept;
  /// Count of addresses that were not given back.
  [[nodiscard]] std::size_t live() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::cuda
