// SPDX-License-Identifier: Apache-2.0
#include "weir/interop/cuda_allocator.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/alignment.hpp"
#include "context_scope.hpp"
#include "device.hpp"
#include "graph_memory.hpp"
#include "lane_table.hpp"
#include "naming.hpp"
#include "stream.hpp"
#include "weir/buffer.hpp"
#include "weir/interop/buffer_table.hpp"
#include "weir/spi/block.hpp"

namespace weir::cuda {

const spi::Backend* backend() noexcept;

namespace {

ResourcePtr checked(ResourcePtr resource) {
  if (!resource) throw Error(Errc::invalid_argument, "cuda::Allocator: the resource is null");
  const Device device = resource->device();
  if (device.backend() == "host" || device.state().backend == backend()) return resource;
  throw Error(Errc::unsupported, "cuda::Allocator: memory of " + device.state().describe() + " (" + resource->name() +
                                     ") has no address for CUDA");
}

void* address_of(const Buffer& buffer) noexcept {
  const auto address = buffer.device_address();
  return address ? reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)) : buffer.host_data();
}

}  // namespace

struct Allocator::State {
  explicit State(ResourcePtr from) : resource(checked(std::move(from))), sync(resource->device()) {}

  // The streams may still use whatever was not given back.
  ~State() {
    lanes.for_each([](Lane& lane) { lane.touch(); });
  }

  /// Keep the buffer, and with it the lane that it was allocated on.
  void* keep(Buffer buffer, HeldLane lane) {
    void* const address = address_of(buffer);
    buffers.insert(address, std::move(buffer), lane.get());
    (void)lane.detach();
    return address;
  }

  /// Take the buffer at `address` out of the table, and its lane. If there is none, report that and return a closed
  /// buffer.
  Buffer take(void* address, HeldLane& lane) noexcept {
    void* tag = nullptr;
    Buffer buffer = buffers.take(address, &tag);
    lane = HeldLane::adopt(static_cast<Lane*>(tag));
    if (buffer.is_closed()) {
      report({make_error_code(std::errc::invalid_argument), "cuda::Allocator::deallocate",
              "memory that did not come from here, or was given back already, is left as it is"});
    }
    return buffer;
  }

  /// Take the buffer at `address` out of the table, and close it by `close(buffer, lane)`. If that throws, the memory
  /// is leaked, which is reported.
  template <class Close>
  void end(void* address, const Close& close) noexcept {
    if (!address) return;
    HeldLane lane;
    Buffer buffer = take(address, lane);
    if (buffer.is_closed() || forked_after_load()) return;
    spi::Block& block = *buffer.block();
    try {
      close(buffer, lane);
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      if (known && known->code() == Errc::device_lost) return;
      block.owners.fetch_add(1);  // never dropped again
      (void)lane.detach();
      const Naming nobody(nullptr, true);
      buffer.close();
      report_leak("cuda::Allocator::deallocate", block.size, error.what());
    }
  }

  /// Return the device for stream handles that name none.
  Gpu& gpu() {
    if (Gpu* const known = device.load(std::memory_order_acquire)) return *known;
    const Device of = resource->device();
    Gpu& found = gpu_of(of.state().backend == backend() ? of.state() : cuda::device(0).state());
    device.store(&found, std::memory_order_release);
    return found;
  }

  /// What a handle means. While the stream is being captured, nobody may ask for its id.
  struct Named {
    StreamKey key;
    bool captured;
  };

  /// Usually two questions: these work whatever context is current. Older drivers may refuse them then.
  Named named(CUstream native) {
    Gpu& at = gpu();
    at.check_process();
    Named named{{at.context(), 0}, false};
    auto status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (native == CU_STREAM_PER_THREAD || (native == CU_STREAM_LEGACY && !is_current(named.key.context)) ||
        driver().StreamIsCapturing(native, &status) != CUDA_SUCCESS) [[unlikely]] {
      named = named_anywhere(native);
    } else if (status != CU_STREAM_CAPTURE_STATUS_NONE) [[unlikely]] {
      named.captured = is_captured(status, at);
    } else if (driver().StreamGetId(native, &named.key.id) != CUDA_SUCCESS) [[unlikely]] {
      named = named_anywhere(native);
    }
    if (graphs.may_capture() && !named.captured) [[unlikely]]
      graphs.is_free(native);
    return named;  // if the stream is of another context, no lane has this key
  }

  static bool is_current(CUcontext context) noexcept {
    CUcontext current = nullptr;
    return driver().CtxGetCurrent(&current) == CUDA_SUCCESS && current == context;
  }

  Named named_anywhere(CUstream native) {
    Gpu& at = gpu();
    Named named{{at.context(), 0}, false};
    if (native != CU_STREAM_LEGACY && native != CU_STREAM_PER_THREAD) {
      const RelaxedCapture relaxed;
      check(driver().StreamGetCtx(native, &named.key.context), "cuStreamGetCtx", at);
    }
    const ContextScope scope(named.key.context);
    auto status = CU_STREAM_CAPTURE_STATUS_NONE;
    check(driver().StreamIsCapturing(native, &status), "cuStreamIsCapturing", at);
    named.captured = is_captured(status, at);
    if (!named.captured) check(driver().StreamGetId(native, &named.key.id), "cuStreamGetId", at);
    return named;
  }

  HeldLane lane(CUstream native, const StreamKey& key) {
    if (auto known = lanes.find(key)) [[likely]]
      return known;
    return find_or_make(native);
  }

  HeldLane find_or_make(CUstream native) {
    Gpu& at = gpu();
    const auto [key, captured] = named_anywhere(native);
    if (captured)
      throw Error(Errc::unsupported, "cuda::Allocator: a capture began while another call named its stream");
    if (auto known = lanes.find(key)) return known;
    const Naming spares(nullptr, graphs.may_capture());  // lanes that cannot end without a point stay for now
    if (key.context == at.context() && native != CU_STREAM_PER_THREAD && driver().CtxRecordEvent) {
      const auto made = spi::Ref<spi::StreamState>::adopt(GpuStream::create_for_app(at, native));
      return lanes.add(std::make_unique<Lane>(key, Stream(made), nullptr));
    }
    const ContextScope scope(key.context);
    const Stream theirs = borrow(device_of_context(), native);
    return lanes.add(std::make_unique<Lane>(key, Stream(resource->device()), &theirs));
  }

  /// While somebody may be capturing, try without points of the whole context first, which would spoil the capture.
  Buffer get(const Lane& lane, std::size_t bytes, std::size_t alignment) {
    const Naming naming(lane.direct(), graphs.may_capture());
    try {
      return resource->allocate(bytes, lane.own, alignment);
    } catch (const OutOfMemory&) {
      if (!naming.has_refused()) throw;
    }
    const Naming insists(lane.direct(), false);
    return resource->allocate(bytes, lane.own, alignment);
  }

  /// Return memory that every stream may use at once.
  Buffer get_now(std::size_t bytes, std::size_t alignment) {
    Buffer buffer = resource->allocate(bytes, sync, alignment);
    if (auto& timeline = sync.state(); !timeline.reached(timeline.issued())) sync.synchronize();
    return buffer;
  }

  /// Return memory for the graph into which `native` is being captured.
  Buffer get_for_graph(CUstream native, std::size_t bytes, std::size_t alignment) {
    if (!weir::detail::can_align(alignment)) weir::detail::refuse_alignment(resource->name(), alignment);
    const auto graph = graphs.of(gpu(), native);
    if (!graph) throw Error(Errc::unsupported, "cuda::Allocator: a capture ended while another call named its stream");
    Buffer known = graph->again(native, bytes, alignment);
    if (!known.is_closed()) return known;
    const Naming spares_it(nullptr, true);
    const RelaxedCapture relaxed;
    Buffer buffer = get_now(bytes, alignment);
    void* const address = address_of(buffer);
    return graph->add(address, std::move(buffer));
  }

  /// Close the buffer in the order of `native`. `home` is the lane that it was allocated on.
  void give_back(CUstream native, void* address, Buffer& buffer, const HeldLane& home) {
    if (!native) native = CU_STREAM_LEGACY;
    const auto [key, captured] = named(native);
    if (captured) [[unlikely]]
      return give_to_graph(native, address, buffer, home);
    if (home && home->key == key) [[likely]] {
      const Naming naming(home->direct(), graphs.may_capture());
      home->hand_back();
      buffer.close();
      return home->handed_back(graphs.may_capture());
    }
    const HeldLane elsewhere = lane(native, key);
    const Naming naming(elsewhere->direct(), graphs.may_capture());
    elsewhere.get() == home.get() ? elsewhere->hand_back() : elsewhere->used(*buffer.block());
    buffer.close();
  }

  /// Close the buffer although no stream is named.
  void give_back_unnamed(Buffer& buffer, const HeldLane& home) {
    if (home && home->direct()) {
      home->touch();
    } else {
      Gpu& at = gpu();
      if (!driver().CtxRecordEvent || (home && home->key.context != at.context())) {
        throw Error(Errc::unsupported, "nobody knows when its stream has ended; name the stream");
      }
      spi::StreamState& all = at.whole_context();
      buffer.block()->used(all, all.put(spi::NativeOp{}));
    }
    const Naming nobody(nullptr, graphs.may_capture());
    buffer.close();
  }

  void give_to_graph(CUstream native, void* address, Buffer& buffer, const HeldLane& home) {
    const auto graph = graphs.of(gpu(), native);
    if (!graph) throw Error(Errc::unsupported, "cuda::Allocator: a capture ended while another call named its stream");
    if (graph->came_back(address, native)) return buffer.close();
    graph->hold(buffer, home ? home->own : sync);
  }

  static Device device_of_context() {
    CUdevice wanted = 0;
    check(driver().CtxGetDevice(&wanted), "cuCtxGetDevice");
    for (const Device& one : devices()) {
      if (one.state().backend == backend() && gpu_of(one.state()).handle() == wanted) return one;
    }
    return cuda::device(wanted);  // throws, and says which devices there are
  }

  const ResourcePtr resource;
  const Stream sync;  // only the resource puts work on it
  std::atomic<Gpu*> device{nullptr};
  Graphs graphs;
  LaneTable lanes;
  BufferTable buffers;  // ends first
};

Allocator::Allocator(ResourcePtr resource) : state_(std::make_unique<State>(std::move(resource))) {}
Allocator::~Allocator() = default;

const ResourcePtr& Allocator::resource() const noexcept { return state_->resource; }
std::size_t Allocator::live() const noexcept { return state_->buffers.size(); }

void* Allocator::allocate(CUstream_st* stream, std::size_t bytes, std::size_t alignment) {
  if (bytes == 0) return nullptr;
  if (!stream) stream = CU_STREAM_LEGACY;
  const auto [key, captured] = state_->named(stream);
  if (captured) [[unlikely]]
    return state_->keep(state_->get_for_graph(stream, bytes, alignment), {});
  HeldLane lane = state_->lane(stream, key);
  Buffer buffer = state_->get(*lane, bytes, alignment);
  lane->take_over(state_->graphs.may_capture());
  return state_->keep(std::move(buffer), std::move(lane));
}

void Allocator::deallocate(CUstream_st* stream, void* address) noexcept {
  state_->end(address, [&](Buffer& buffer, const HeldLane& home) { state_->give_back(stream, address, buffer, home); });
}

void Allocator::deallocate(void* address) noexcept {
  state_->end(address, [&](Buffer& buffer, const HeldLane& home) { state_->give_back_unnamed(buffer, home); });
}

void* Allocator::allocate_sync(std::size_t bytes, std::size_t alignment) {
  if (bytes == 0) return nullptr;
  return state_->keep(state_->get_now(bytes, alignment), {});
}

void Allocator::deallocate_sync(void* address) noexcept {
  if (!address) return;
  HeldLane home;
  const Naming nobody(nullptr, state_->graphs.may_capture());
  state_->take(address, home).close();
}

}  // namespace weir::cuda
