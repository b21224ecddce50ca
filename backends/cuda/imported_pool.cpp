// SPDX-License-Identifier: Apache-2.0
// Pools of other processes. For one allocation the driver gives one address, however often it is imported, and the
// first free ends it. So a table has what is open, and for each allocation one import or free at a time.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "base/never_ends.hpp"
#include "base/thrown_by.hpp"
#include "context_scope.hpp"
#include "destroying.hpp"
#include "device.hpp"
#include "segment.hpp"
#include "weir/error.hpp"
#include "weir/interop/cuda_pools.hpp"
#include "weir/spi/resources.hpp"
#include "weir/spi/stranger_fd.hpp"

namespace weir::cuda {

const spi::Backend* backend() noexcept;

struct ImportedPool::State {
  State(Gpu& on, spi::UniqueFd file);
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  Gpu& gpu;
  CUmemoryPool pool = nullptr;
  CUstream frees_on = nullptr;  // has frees alone, so that waiting for it is short
};

namespace {

// What a stranger's file or bytes are is found out by the driver, which answers that a value is wrong, or "unknown
// error" for a file of another kind (13.0).
[[noreturn]] void refuse(CUresult result, const char* call, const std::string& what, const Gpu& gpu) {
  if (result != CUDA_ERROR_INVALID_VALUE && result != CUDA_ERROR_INVALID_HANDLE && result != CUDA_ERROR_UNKNOWN)
    fail(result, call, what + " on " + gpu.describe());
  throw Error(Errc::corrupt_descriptor, what + " on " + gpu.describe() + ": " + call + ": " + describe(result));
}

template <class T>
T query(CUpointer_attribute attribute, CUdeviceptr address, const Gpu& gpu) {
  T value{};
  check(driver().PointerGetAttribute(&value, attribute, address), "cuPointerGetAttribute", "imported memory on ", gpu);
  return value;
}

}  // namespace

/// The allocations of other processes that are open in this one.
class PoolImports {
 public:
  using State = ImportedPool::State;

  /// Open memory, or count one more that has it open.
  spi::Ref<spi::Segment> open(const std::shared_ptr<State>& state, const PoolPointer& pointer, std::size_t bytes);
  void close(const PoolPointer& pointer) noexcept;
  // The child uses none of this, because the devices are the parent's.
  void fork(spi::ForkMoment moment) noexcept { weir::detail::hold_across_fork(mutex_, moment); }

 private:
  struct Import {
    std::shared_ptr<State> state;
    CUdeviceptr address;
    std::size_t size;
    std::size_t open = 0;
    bool busy = false;  // a thread is importing or freeing it, without the lock
  };
  using Imports = std::map<PoolPointer, Import>;
  Imports::iterator find_idle(const PoolPointer& pointer, std::unique_lock<std::mutex>& lock);
  template <class Action>
  void without(std::unique_lock<std::mutex>& lock, Import& import, const Action& action);
  static CUresult free(const Import& import, const char*& call) noexcept;
  static void give_up(const Import& import) noexcept;
  static Import import(const std::shared_ptr<State>& state, const PoolPointer& pointer);

  std::mutex mutex_;  // not held during calls of the driver, which may wait for the device
  std::condition_variable changed_;
  Imports imports_;
};

namespace {

PoolImports& pool_imports() { return weir::detail::never_ends<PoolImports>(); }

const weir::detail::ForkStep pool_imports_step(3, [](spi::ForkMoment moment) noexcept { pool_imports().fork(moment); });

/// Memory of another process, as long as one of its buffers here exists.
class ImportedSegment final : public GpuSegment {
 public:
  ImportedSegment(Gpu& gpu, const KindInfo& info, const PoolPointer& pointer) noexcept
      : GpuSegment(gpu, info, 0), pointer_(pointer) {
    imported = true;
  }
  ~ImportedSegment() override {
    if (address != 0 && !gpu().inherited) pool_imports().close(pointer_);
  }
  void publish(CUdeviceptr at, std::size_t bytes) noexcept {
    size = bytes;
    place(at);
  }

 private:
  PoolPointer pointer_;
};

}  // namespace

// Free in stream order and wait: when this returns, the process that made the memory may free it.
CUresult PoolImports::free(const Import& import, const char*& call) noexcept {
  call = "cuMemFreeAsync";
  const auto freed = driver().MemFreeAsync(import.address, import.state->frees_on);
  if (freed != CUDA_SUCCESS) return freed;
  call = "cuStreamSynchronize";
  return driver().StreamSynchronize(import.state->frees_on);
}

// Of memory that no buffer was made of.
void PoolImports::give_up(const Import& import) noexcept {
  const char* call = "";
  const auto freed = free(import, call);
  report_failure(freed, call, import.state->gpu);
}

PoolImports::Import PoolImports::import(const std::shared_ptr<State>& state, const PoolPointer& pointer) {
  Gpu& gpu = state->gpu;
  CUmemPoolPtrExportData data{};
  std::memcpy(data.reserved, pointer.data(), pointer.size());
  Import made{state, 0, 0};
  const auto result = driver().MemPoolImportPointer(&made.address, state->pool, &data);
  if (result != CUDA_SUCCESS) refuse(result, "cuMemPoolImportPointer", "the pool has no memory of that name", gpu);
  try {
    made.size = query<std::size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, made.address, gpu);
    if (const int there = query<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, made.address, gpu); there != gpu.ordinal) {
      throw Error(Errc::incompatible,
                  "the pool's memory is that of CUDA device " + std::to_string(there) + ", not of " + gpu.describe());
    }
  } catch (...) {
    give_up(made);
    throw;
  }
  return made;
}

PoolImports::Imports::iterator PoolImports::find_idle(const PoolPointer& pointer, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    const auto known = imports_.find(pointer);
    if (known == imports_.end() || !known->second.busy) return known;
    changed_.wait(lock);
  }
}

// Do `action` without the lock. Other threads that want this import wait meanwhile, and find it as the caller leaves
// it.
template <class Action>
void PoolImports::without(std::unique_lock<std::mutex>& lock, Import& import, const Action& action) {
  import.busy = true;
  lock.unlock();
  const auto refused = weir::detail::thrown_by(action);
  lock.lock();
  import.busy = false;
  changed_.notify_all();
  if (refused) std::rethrow_exception(refused);
}

spi::Ref<spi::Segment> PoolImports::open(const std::shared_ptr<State>& state, const PoolPointer& pointer,
                                         std::size_t bytes) {
  Gpu& gpu = state->gpu;
  gpu.check_process();
  auto segment = std::make_unique<ImportedSegment>(gpu, *gpu.find(MemoryKind::async), pointer);
  const ContextScope scope(gpu.context());
  std::unique_lock lock(mutex_);
  auto known = find_idle(pointer, lock);
  if (known == imports_.end()) {
    known = imports_.emplace(pointer, Import{nullptr, 0, 0}).first;
    Import made{nullptr, 0, 0};
    try {
      without(lock, known->second, [&] { made = import(state, pointer); });
    } catch (...) {
      imports_.erase(known);
      throw;
    }
    known->second = std::move(made);
  }
  Import& import = known->second;
  if (&import.state->gpu != &gpu) {
    throw Error(Errc::incompatible,
                "the memory is open on " + import.state->gpu.describe() + ", and cannot be on " + gpu.describe());
  }
  const std::size_t size = import.size;
  if (bytes > size) {
    if (import.open == 0) {
      without(lock, import, [&] { give_up(import); });
      imports_.erase(known);
    }
    throw Error(Errc::corrupt_descriptor, "a buffer of " + std::to_string(bytes) + " bytes does not lie in memory of " +
                                              std::to_string(size) + " bytes on " + gpu.describe());
  }
  ++import.open;
  segment->publish(import.address, size);
  return spi::Ref<spi::Segment>::adopt(segment.release());
}

void PoolImports::close(const PoolPointer& pointer) noexcept {
  std::shared_ptr<State> state;  // its pool ends after the lock
  CUresult freed = CUDA_SUCCESS;
  const char* call = "";
  {
    std::unique_lock lock(mutex_);
    const auto known = find_idle(pointer, lock);
    if (known == imports_.end() || --known->second.open != 0) return;
    state = known->second.state;
    without(lock, known->second, [&] {
      const ReleaseScope scope(state->gpu.context(), state->gpu);
      if (scope) freed = free(known->second, call);
    });
    imports_.erase(known);
  }
  report_failure(freed, call, state->gpu);
}

ImportedPool::State::State(Gpu& on, spi::UniqueFd file) : gpu(on) {
  const spi::StrangerFd stranger(std::move(file));
  gpu.check_process();
  const ContextScope scope(gpu.context());
  check(driver().StreamCreate(&frees_on, CU_STREAM_NON_BLOCKING), "cuStreamCreate", "on ", gpu);
  auto* const handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(stranger.get()));
  const auto result =
      driver().MemPoolImportFromShareableHandle(&pool, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result == CUDA_SUCCESS) return;
  (void)destroy_stream(frees_on);
  refuse(result, "cuMemPoolImportFromShareableHandle", "the file names no memory pool", gpu);
}

ImportedPool::State::~State() {
  if (gpu.inherited) return;
  const ReleaseScope scope(gpu.context(), gpu);
  report_failure(destroy_pool(pool), "cuMemPoolDestroy", gpu);
  report_failure(destroy_stream(frees_on), "cuStreamDestroy", gpu);
}

ImportedPool::ImportedPool(const Device& device, spi::UniqueFd file) {
  spi::StrangerFd stranger(std::move(file));  // also if this throws
  if (device.state().backend != backend()) {
    throw Error(Errc::incompatible, "ImportedPool: " + device.state().describe() + " is not a CUDA device");
  }
  Gpu& gpu = gpu_of(device.state());
  if (!gpu.find(MemoryKind::async)) throw Error(Errc::unsupported, gpu.describe() + " has no driver memory pools");
  state_ = std::make_shared<State>(gpu, stranger.trust());
}

Buffer ImportedPool::open(std::span<const std::byte> pointer, std::size_t bytes, const Stream& stream) const {
  (void)stream.state();
  PoolPointer name;
  if (pointer.size() != name.size()) {
    throw Error(Errc::corrupt_descriptor, "ImportedPool::open: the driver's name of memory has " +
                                              std::to_string(name.size()) + " bytes, not " +
                                              std::to_string(pointer.size()));
  }
  if (bytes == 0) throw Error(Errc::invalid_argument, "ImportedPool::open: zero bytes name no memory");
  std::copy(pointer.begin(), pointer.end(), name.begin());
  return spi::make_adopted_buffer(pool_imports().open(state_, name, bytes), 0, bytes, stream);
}

Device ImportedPool::device() const { return Device(state_->gpu); }

}  // namespace weir::cuda
