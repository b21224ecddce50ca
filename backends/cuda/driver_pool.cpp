// SPDX-License-Identifier: Apache-2.0
#include "driver_pool.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <new>
#include <utility>

#include "context_scope.hpp"
#include "destroying.hpp"
#include "device.hpp"
#include "segment.hpp"
#include "sticky_errors.hpp"
#include "stream.hpp"
#include "weir/memory_resource.hpp"

namespace weir::cuda {

DriverPool::~DriverPool() {
  if (!made()) return;
  if (gpu_.inherited) {  // a thread of the parent may have had the lock of the events when it forked
    (void)new (std::nothrow) Frees(std::move(frees_));
    return;
  }
  const ReleaseScope scope(gpu_.context(), gpu_);
  see_frees();  // so that an application may destroy its streams beside this
  report_failure(destroy_stream(frees_on_), "cuStreamDestroy", gpu_);
  report_failure(destroy_pool(made()), "cuMemPoolDestroy", gpu_);
}

CUmemoryPool DriverPool::handle() {
  if (const CUmemoryPool known = made()) return known;
  {
    const std::scoped_lock lock(mutex_);
    if (!made()) handle_.store(make(), std::memory_order_release);
  }
  gpu_.pools().add(shared_from_this());
  return made();
}

CUmemoryPool DriverPool::make() {
  gpu_.check_process();
  if (max_size_ != 0 && driver().version < 12020) {
    throw Error(Errc::unsupported,
                "a limit on a driver pool needs CUDA 12.2 or newer; there is " + gpu_.spi::DeviceState::driver);
  }
  const ContextScope scope(gpu_.context());
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu_.ordinal;
  properties.maxSize = max_size_;
  CUmemoryPool pool = nullptr;
  check(driver().MemPoolCreate(&pool, &properties), "cuMemPoolCreate", "on ", gpu_);
  cuuint64_t threshold = release_threshold_;
  const auto set = driver().MemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  if (set != CUDA_SUCCESS) {
    (void)destroy_pool(pool);
    check(set, "cuMemPoolSetAttribute", "release threshold ", release_threshold_, " on ", gpu_);
  }
  const auto stream = driver().StreamCreate(&frees_on_, CU_STREAM_NON_BLOCKING);
  if (stream != CUDA_SUCCESS) {
    (void)destroy_pool(pool);
    check(stream, "cuStreamCreate", "on ", gpu_);
  }
  return pool;
}

// A context of the application may end at any time, and its events with it: frees there are not remembered, and trim()
// does not wait for them.
void DriverPool::freed_on(const GpuStream& stream, CUstream native) noexcept {
  if (stream.context() == gpu_.context()) remember_free(stream.id(), native);
}

// What cuMemFree takes back, a driver may count as used for long; what was freed in order is free once the host has
// seen it.
bool DriverPool::free(CUdeviceptr address) noexcept {
  constexpr std::uint64_t own = 0;  // no stream has this number
  const ReleaseScope scope(gpu_.context(), gpu_);
  if (!scope) return true;  // that was reported, and the memory stays the driver's
  if (driver().MemFreeAsync(address, frees_on_) != CUDA_SUCCESS) return false;
  remember_free(own, frees_on_);
  return true;
}

// The driver takes memory for free only when the host has seen the free. An event after it is what the host can look
// at.
void DriverPool::remember_free(std::uint64_t stream, CUstream native) noexcept try {
  constexpr std::size_t few = 32;
  constexpr int tries = 8;  // nobody asks for this event later, and without it the memory stays the driver's
  const std::scoped_lock lock(mutex_);
  if (frees_.size() >= std::max(few, most_frees_)) {
    std::erase_if(frees_, [this](const auto& free) { return is_over(*free.second); });
    most_frees_ = 2 * frees_.size();
  }
  auto found = frees_.find(stream);
  if (found == frees_.end()) found = frees_.emplace(stream, gpu_.events().take()).first;
  for (int round = 0; round < tries; ++round) {
    if (driver().EventRecord(found->second->handle, native) == CUDA_SUCCESS) return;
  }
  frees_.erase(found);
} catch (const std::exception&) {  // trim() does not wait for it
}

bool DriverPool::is_over(const PooledEvent& event) const noexcept {
  const auto state = driver().EventQuery(event.handle);
  if (state != CUDA_ERROR_NOT_READY) report_failure(state, "cuEventQuery", gpu_);
  return state == CUDA_SUCCESS;
}

// Those that are over. For some drivers the host has seen only what it waited for.
void DriverPool::see_frees() noexcept {
  const std::scoped_lock lock(mutex_);
  for (const auto& [stream, free] : frees_) {
    if (is_over(*free)) report_failure(driver().EventSynchronize(free->handle), "cuEventSynchronize", gpu_);
  }
}

// Without the lock. Those that the driver could not wait for are the next call's, but where newer ones stand for them.
void DriverPool::wait_for_frees() noexcept {
  Frees frees;
  {
    const std::scoped_lock lock(mutex_);
    frees.swap(frees_);
  }
  for (auto free = frees.begin(); free != frees.end();) {
    const auto waited = driver().EventSynchronize(free->second->handle);
    report_failure(waited, "cuEventSynchronize", gpu_);
    free = waited == CUDA_SUCCESS || is_last_answer(waited) ? frees.erase(free) : std::next(free);
  }
  const std::scoped_lock lock(mutex_);
  frees_.merge(frees);
}

std::size_t DriverPool::ask(CUmemPool_attribute what) const noexcept {
  cuuint64_t bytes = 0;
  const auto answer = driver().MemPoolGetAttribute(made(), what, &bytes);
  if (find_sticky(answer)) lost_ = true;
  return answer == CUDA_SUCCESS ? bytes : 0;
}

void DriverPool::count(ResourceStats& stats) const noexcept {
  if (!made() || gpu_.inherited || lost_) return;
  const RelaxedCapture relaxed;
  stats.reserved = std::max(stats.reserved, ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  stats.peak_reserved = std::max(stats.peak_reserved, ask(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
}

void DriverPool::trim(std::size_t bytes_to_keep, bool may_wait) noexcept {
  if (!made() || gpu_.inherited) return;
  const ReleaseScope scope(gpu_.context(), gpu_);  // also without the context: the calls name what they mean
  may_wait ? wait_for_frees() : see_frees();
  std::size_t keep = 0;  // what is in use stays whatever this says, and may look like more than it is
  if (bytes_to_keep != 0) {
    const auto used = ask(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    keep = used + std::min(bytes_to_keep, SIZE_MAX - used);
    if (keep >= ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)) return;  // drivers round it up, beyond the largest number
  }
  const auto trimmed = driver().MemPoolTrimTo(made(), keep);
  if (is_last_answer(trimmed)) lost_ = true;
  report_failure(trimmed, "cuMemPoolTrimTo", gpu_);
}

bool DriverPool::release_unused() noexcept {
  if (!made() || lost_) return false;
  const auto before = ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  trim(0, false);
  return ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) < before;
}

// The plain resource's: it keeps all that it ever took, until somebody trims it or memory runs out.
std::shared_ptr<spi::Source> source(spi::DeviceState& device, MemoryKind kind) {
  if (kind != MemoryKind::async) return nullptr;
  return std::make_shared<DriverPool>(gpu_of(device), std::numeric_limits<std::size_t>::max(), 0);
}

void DriverPools::add(const std::shared_ptr<DriverPool>& pool) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(pools_, [](const auto& one) { return one.expired(); });
  pools_.push_back(pool);
}

bool DriverPools::release_unused() noexcept try {
  std::vector<std::shared_ptr<DriverPool>> alive;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& one : pools_) {
      if (auto pool = one.lock()) alive.push_back(std::move(pool));
    }
  }
  bool some = false;
  for (const auto& pool : alive) some = pool->release_unused() || some;
  return some;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace weir::cuda
