// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory for CUDA graphs: what a cuda::Allocator gives out, or gets back, on a stream that is being captured.

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "background.hpp"
#include "weir/buffer.hpp"
#include "weir/stream.hpp"

namespace weir::cuda {

class Gpu;

/// Return whether a stream with this status is being captured. Throws for a capture that is invalid: the driver then
/// answers no question about the stream but whether it is being captured.
bool is_captured(CUstreamCaptureStatus status, const Gpu& gpu);

/// Memory that one graph may use whenever it is launched. It stays until the graph has ended, with all that was
/// instantiated from it. Meanwhile the captured streams use it again in their order.
class GraphMemory {
 public:
  explicit GraphMemory(Gpu& gpu) noexcept : gpu_(gpu) {}

  /// Return an owner of memory that came back on this captured stream, if some is large enough and not much too large.
  [[nodiscard]] Buffer again(CUstream native, std::size_t bytes, std::size_t alignment);
  /// Keep new memory for the graph, and return a further owner.
  [[nodiscard]] Buffer add(void* address, Buffer buffer);
  /// Memory came back on this captured stream. Return whether it is the graph's own; then the stream may use it again.
  bool came_back(void* address, CUstream native) noexcept;
  /// Keep memory from elsewhere that came back on a captured stream. `home` is the stream that it was allocated on. If
  /// this throws, `buffer` is as before.
  void hold(Buffer& buffer, Stream home);
  /// The graph has ended: give up all memory, in the order of everything that the device has by now. With
  /// `spares_captures`, no point of the whole context is made for that now.
  void end(bool spares_captures) noexcept;

 private:
  struct Held {
    Buffer buffer;
    Stream home;
  };
  [[nodiscard]] std::optional<std::uint64_t> last_point() noexcept;

  using Free = std::multimap<std::pair<CUstream, std::size_t>, void*>;

  Gpu& gpu_;
  std::mutex mutex_;
  std::map<void*, Buffer> own_;
  Free free_;  // of own_: by the stream on which it came back, and its size
  std::vector<Held> held_;
};

/// The graphs that an allocator has given memory to.
class Graphs {
 public:
  /// Return the memory of the graph into which `native` is being captured; null when it is not being captured.
  [[nodiscard]] std::shared_ptr<GraphMemory> of(Gpu& gpu, CUstream native);
  /// Return whether somebody may be capturing: a capture was seen, and neither its end nor that of its graph was.
  [[nodiscard]] bool may_capture() const noexcept { return list_->open.load(std::memory_order_relaxed) != 0; }
  /// Note that `native` is not being captured now.
  void is_free(CUstream native) noexcept;

 private:
  struct One {
    std::shared_ptr<GraphMemory> memory;
    std::vector<CUstream> captured;  // streams whose capture was seen, and whose end was not
  };
  /// Outlives the allocator while graphs do.
  struct List {
    std::mutex mutex;
    std::map<cuuint64_t, One> graphs;  // by the id of the capture
    std::atomic<std::size_t> open{0};  // graphs with a stream in `captured`
    void forget(cuuint64_t id) noexcept;
  };
  /// What a graph owns.
  struct Owner final : Background::Job {
    Owner(std::shared_ptr<List> given_list, std::shared_ptr<GraphMemory> given_memory, cuuint64_t given_id) noexcept
        : list(std::move(given_list)), memory(std::move(given_memory)), id(given_id) {}
    void run() noexcept override { memory->end(list->open.load() != 0); }
    std::shared_ptr<List> list;
    std::shared_ptr<GraphMemory> memory;
    cuuint64_t id;
  };
  static void give_to(CUgraph graph, std::unique_ptr<Owner> owner, Gpu& gpu);
  static void CUDA_CB graph_ended(void* owner) noexcept;

  std::shared_ptr<List> list_ = std::make_shared<List>();
};

}  // namespace weir::cuda
