// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory of weir for interfaces that know only pointers and CUstreams: hooks of frameworks, and cccl.hpp.

#include <cstddef>
#include <memory>

#include "weir/cuda.hpp"
#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

namespace weir::cuda {

/// Hands out addresses of a resource's buffers in the order of the application's streams, as cudaMallocAsync does.
/// Memory is usable on the stream that it was allocated for. Memory that is given back on a stream is reused after what
/// that stream has by then. The same stream gets such memory again without a wait, and without any work for the driver:
/// a pair of calls asks only whose stream the handle is. Other streams get it when that work is complete, or wait for
/// the work on the device, as the resource decides.
///
/// The application may end a stream at any time, even with memory allocated for it, and the stream's handle may be used
/// again: the driver is asked about a stream only in calls that name that stream. What a stream had when a call named
/// it last is found out, when another stream wants its memory, from a point of the whole context (cuCtxRecordEvent,
/// CUDA 12.5). Streams of other contexts than the device's primary one, and per-thread streams, have a stream of weir's
/// beside each, and cost a few microseconds a pair. Of streams without live memory about 4 096 are remembered.
///
/// On a stream that is being captured, memory is for the graph: it stays with the graph until that has ended, and with
/// it everything that was instantiated from it. Meanwhile the captured stream uses what came back on it again. Memory
/// from elsewhere that comes back on a captured stream stays with the graph, too. While a capture is known, points of
/// the whole context are avoided, because they would spoil it. That holds over pools: where memory of a plain resource
/// comes back, a thread of weir's may record such a point.
///
/// Null and the legacy and per-thread handles mean those streams of the resource's device, or of the first CUDA device
/// for host memory. Thread-safe. The destructor closes what was not given back.
class WEIR_API Allocator {
 public:
  /// Make an allocator over memory of a CUDA device or of the host. Throws unsupported for other memory,
  /// invalid_argument for null.
  explicit Allocator(ResourcePtr resource);
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator();

  /// Return memory for use on `stream`; null for zero bytes. Throws what MemoryResource::allocate throws, and
  /// unsupported when a capture of the stream has become invalid.
  [[nodiscard]] void* allocate(CUstream_st* stream, std::size_t bytes,
                               std::size_t alignment = default_alignment);
  /// Give memory back after everything on `stream` so far. `stream` need not be the one that the memory was allocated
  /// for. Memory whose end cannot be ordered in this way, because the driver refuses it, is leaked, which is reported.
  /// An address that did not come from here is left as it is, which is reported, too.
  void deallocate(CUstream_st* stream, void* address) noexcept;
  /// The same for an owner that can name no stream, because the stream may have ended. The stream that the memory was
  /// allocated for may use it again at once, and others after what that stream has by now. Work of further streams on
  /// the memory must be over. Memory of a stream of another context than the device's primary one is leaked, which is
  /// reported.
  void deallocate(void* address) noexcept;

  /// Return memory that every stream and the host may use at once. The call waits for that where it has to.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment);
  /// Give back memory that no stream uses any more.
  void deallocate_sync(void* address) noexcept;

  [[nodiscard]] const ResourcePtr& resource() const noexcept;  ///< where the memory comes from
  /// Return the number of addresses that are not given back yet.
  [[nodiscard]] std::size_t live() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::cuda
