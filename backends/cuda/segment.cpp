// SPDX-License-Identifier: Apache-2.0
#include "segment.hpp"

#include <unistd.h>

#include <limits>

#include "blocking_frees.hpp"
#include "context_scope.hpp"
#include "driver_pool.hpp"
#include "stream.hpp"

namespace weir::cuda {

GpuSegment::GpuSegment(Gpu& gpu, const KindInfo& info, std::size_t bytes) noexcept {
  device = &gpu;
  kind = info.kind;
  size = bytes;
  device_accessible = true;
  dlpack_device = info.dlpack_device;
}

void GpuSegment::place(CUdeviceptr at, void* host_address) noexcept {
  address = at;
  host = static_cast<std::byte*>(host_address);
}

namespace {

CUresult make(BlockingFrees::Memory& memory, const char*& call) {
  switch (memory.kind) {
    case MemoryKind::pinned: {
      call = "cuMemHostAlloc";  // usable by every context
      constexpr unsigned int flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
      if (const auto result = driver().MemHostAlloc(&memory.host, memory.bytes, flags); result != CUDA_SUCCESS) {
        memory.host = nullptr;
        return result;
      }
      call = "cuMemHostGetDevicePointer";
      return driver().MemHostGetDevicePointer(&memory.address, memory.host, 0);
    }
    case MemoryKind::managed: {
      call = "cuMemAllocManaged";
      const auto result = driver().MemAllocManaged(&memory.address, memory.bytes, CU_MEM_ATTACH_GLOBAL);
      if (result == CUDA_SUCCESS) memory.host = reinterpret_cast<void*>(memory.address);
      return result;
    }
    default: call = "cuMemAlloc"; return driver().MemAlloc(&memory.address, memory.bytes);
  }
}

/// Device, pinned and managed memory.
class PlainSegment final : public GpuSegment {
 public:
  using GpuSegment::GpuSegment;
  ~PlainSegment() override {
    if (memory_.bytes != 0) BlockingFrees::get().free(memory_);
  }
  CUresult take(const char*& call) {
    auto& frees = BlockingFrees::get();
    BlockingFrees::Memory memory{&gpu(), kind, size};
    if (!frees.take_back(memory)) {
      frees.expect();
      const auto result = make(memory, call);
      if (result != CUDA_SUCCESS) {
        memory.bytes = 0;  // take_back() never finds it: the device does not reach this memory
        memory.host ? frees.free(memory) : frees.forget();
        return result;
      }
    }
    memory_ = memory;
    place(memory.address, memory.host);
    return CUDA_SUCCESS;
  }

 private:
  BlockingFrees::Memory memory_{};  // none while `bytes` is 0
};

/// An allocation of a driver pool.
class AsyncSegment final : public GpuSegment {
 public:
  using GpuSegment::GpuSegment;
  ~AsyncSegment() override {
    if (!address) return;
    if (lent_ && !lent_->reached(born_) && free_in_order(*lent_)) return;
    // The allocation and all uses are complete, so the free needs no stream of anybody's.
    if (!pool_->free(address)) BlockingFrees::get().free_unexpected({&gpu(), kind, size, address});
  }
  CUresult take(DriverPool& pool, GpuStream& stream, const char*& call) {
    call = "cuMemAllocFromPoolAsync";
    const CUmemoryPool from = pool.handle();
    const GpuStream::Turn turn(stream);
    CUdeviceptr at = 0;
    const auto result = driver().MemAllocFromPoolAsync(&at, size, from, turn.handle());
    if (result != CUDA_SUCCESS) return result;
    pool_ = pool.shared_from_this();
    place(at);
    return result;
  }
  /// Note that the allocation is `point` of `lent`. The stream that the memory is for may never come to wait for that
  /// point.
  void born_on(spi::Ref<spi::StreamState> lent, std::uint64_t point) noexcept {
    lent_ = std::move(lent);
    born_ = point;
  }
  bool frees_in_order() const noexcept override { return true; }
  bool free_in_order(spi::StreamState& stream) noexcept override {
    if (stream.device().backend != device->backend) return false;
    try {
      const auto& ours = static_cast<GpuStream&>(stream);
      const GpuStream::Turn turn(ours);
      if (driver().MemFreeAsync(address, turn.handle()) != CUDA_SUCCESS) return false;
      address = 0;
      pool_->freed_on(ours, turn.handle());
    } catch (const std::exception&) {  // captured, or there is no memory for the turn
      return false;
    }
    return true;
  }

 private:
  std::shared_ptr<DriverPool> pool_;
  spi::Ref<spi::StreamState> lent_;
  std::uint64_t born_ = 0;
};

// Bytes of main memory. Pinned memory cannot exceed this, and managed memory cannot exceed this plus the device's
// memory.
std::size_t host_memory() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page)
                               : std::numeric_limits<std::size_t>::max();
}

std::size_t limit_of(const Gpu& gpu, MemoryKind kind) noexcept {
  if (kind == MemoryKind::pinned) return host_memory();
  if (kind == MemoryKind::managed) return gpu.total_memory + host_memory();
  return gpu.total_memory;
}

template <class T, class Take>
spi::Segment* take(Gpu& gpu, const KindInfo& info, std::size_t bytes, std::size_t limit, Shortage& shortage,
                   Take take_memory) {
  const ContextScope scope(gpu.context());
  std::unique_ptr<T> segment;
  const char* call = "";
  const auto result = make_with_room(gpu, [&] {
    segment = std::make_unique<T>(gpu, info, bytes);
    return take_memory(*segment, call);
  });
  return exhausted(gpu, result, call, bytes, limit, shortage) ? nullptr : segment.release();
}

// Make the allocation a point of the timeline, so that streams that use the memory elsewhere can wait for it. If that
// fails, give the memory back on the stream that it came from.
template <class Put>
void number(spi::Segment& segment, GpuStream& stream, Put put) {
  try {
    put();
  } catch (...) {
    if (!segment.free_in_order(stream)) stream.wait_natively();  // then the destructor frees it
    throw;
  }
}

// Memory for a stream of another backend is allocated on one of weir's CUDA streams, for which the other stream then
// waits.
spi::Segment* take_async(Gpu& gpu, const KindInfo& info, std::size_t bytes, const spi::SegmentRequest& request,
                         Shortage& shortage) {
  auto& pool = static_cast<DriverPool&>(*request.source);
  const std::size_t limit = pool.max_size() ? pool.max_size() : gpu.total_memory;
  spi::StreamState& wanted = *request.stream;
  const bool ours = wanted.device().backend == gpu.backend;
  auto on = ours ? spi::Ref<spi::StreamState>::retain(&wanted) : gpu.lent_streams().take();
  auto& stream = static_cast<GpuStream&>(*on);
  const auto make = [&](AsyncSegment& made, const char*& call) {
    if (!stream.app()) return made.take(pool, stream, call);
    CUresult result = CUDA_SUCCESS;  // in the stream's turn, without which AppStream is not to be used
    (void)stream.put(spi::NativeOp{[&](std::uint64_t) { result = made.take(pool, stream, call); }});
    return result;
  };
  auto segment = spi::Ref<spi::Segment>::adopt(take<AsyncSegment>(gpu, info, bytes, limit, shortage, make));
  if (segment && ours) number(*segment, stream, [&] { (void)stream.put(spi::NativeOp{}); });
  if (segment && !ours) {
    number(*segment, stream, [&] {
      const auto point = stream.put(spi::MarkOp{});
      static_cast<AsyncSegment&>(*segment).born_on(on, point);
      wanted.put(spi::WaitOp{spi::Kept(*on), point});
    });
  }
  if (!ours) gpu.lent_streams().give_back(std::move(on));
  return segment.detach();
}

}  // namespace

bool make_room(Gpu& gpu) noexcept {
  const bool freed = BlockingFrees::get().settle();
  return gpu.pools().release_unused() || freed;
}

// For sizes that no device could have, the driver answers "invalid value" and not "out of memory".
bool exhausted(Gpu& gpu, CUresult result, const char* call, std::size_t bytes, std::size_t limit, Shortage& shortage) {
  if (result == CUDA_SUCCESS) return false;
  const bool too_large = result == CUDA_ERROR_INVALID_VALUE && bytes > gpu.total_memory;
  if (result != CUDA_ERROR_OUT_OF_MEMORY && !too_large) check(result, call, bytes, " bytes on ", gpu);
  shortage.call = call;
  shortage.native = code_of(result);
  if (const auto memory = gpu.memory()) shortage.device_free = memory->free;
  shortage.limit = limit;
  return true;
}

spi::Segment* reserve(spi::DeviceState& device, const spi::SegmentRequest& request, Shortage& shortage) {
  Gpu& gpu = gpu_of(device);
  const KindInfo* const info = gpu.find(request.kind);
  const auto limit = limit_of(gpu, request.kind);
  const std::size_t rest = request.bytes % info->granularity;
  const std::size_t padding = rest ? info->granularity - rest : 0;
  const bool on_host = info->host_accessible;
  if (request.bytes > std::numeric_limits<std::size_t>::max() - padding || (on_host && request.bytes > limit)) {
    shortage.limit = limit;
    return nullptr;
  }
  const std::size_t bytes = request.bytes + padding;
  switch (request.kind) {
    case MemoryKind::async: return take_async(gpu, *info, bytes, request, shortage);
    case MemoryKind::vmm:
      return take<VmmSegment>(gpu, *info, bytes, limit, shortage, [&](VmmSegment& segment, const char*& call) {
        const auto result = segment.mapping.create(gpu, bytes, request.exportable, call);
        segment.exportable = request.exportable;
        segment.viewable = request.exportable && request.flags == viewed_by_others;
        segment.publish();
        return result;
      });
    default:
      return take<PlainSegment>(gpu, *info, bytes, limit, shortage,
                                [](PlainSegment& segment, const char*& call) { return segment.take(call); });
  }
}

}  // namespace weir::cuda
