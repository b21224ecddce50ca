// SPDX-License-Identifier: Apache-2.0
#include "driver_pool.hpp"

#include <fcntl.h>

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
  if (gpu_.inherited) {  // when the parent forked, one of its threads may have held the lock of the events
    (void)end_.release();
    (void)new (std::nothrow) PoolFrees(std::move(frees_));
    return;
  }
  end_.release()->end(made(), std::move(frees_));
}

CUmemoryPool DriverPool::handle() {
  if (const CUmemoryPool known = made()) return known;
  {
    const std::scoped_lock lock(mutex_);
    if (!made()) {
      gpu_.check_process();
      auto end = std::make_unique<PoolEnd>(gpu_);
      gpu_.pools().add(shared_from_this());  // first, because it needs memory
      const CUmemoryPool pool = make();
      end_ = std::move(end);
      handle_.store(pool, std::memory_order_release);
    }
  }
  return made();
}

CUmemoryPool DriverPool::make() {
  if (max_size_ != 0 && driver().version < 12020) {
    throw Error(Errc::unsupported,
                "a limit on a driver pool needs CUDA 12.2 or newer; there is " + gpu_.spi::DeviceState::driver);
  }
  const ContextScope scope(gpu_.context());
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.handleTypes = exportable_ ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
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
  if (!exportable_) return pool;
  int fd = -1;
  constexpr auto type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const auto exported = driver().MemPoolExportToShareableHandle(&fd, pool, type, 0);
  if (exported != CUDA_SUCCESS) {
    (void)destroy_pool(pool);
    check(exported, "cuMemPoolExportToShareableHandle", "a pool of ", gpu_);
  }
  file_.reset(fd);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return pool;
}

// A context of the application may end at any time, and its events end with it.
void DriverPool::freed_on(const GpuStream& stream, CUstream native) noexcept {
  if (stream.context() == gpu_.context()) return remember_free(stream.id(), native);
  const std::scoped_lock lock(mutex_);
  end_->follow(stream.events(), native);
}

// Free in stream order, and not with cuMemFree: a driver may count memory that cuMemFree took back as used for a long
// time. Memory that was freed in stream order is free once the host has seen the free.
bool DriverPool::free(CUdeviceptr address) noexcept {
  const ReleaseScope scope(gpu_.context(), gpu_);
  if (!scope) return true;  // the failure is reported, and the driver keeps the memory
  if (driver().MemFreeAsync(address, end_->frees_on()) != CUDA_SUCCESS) return false;
  const std::scoped_lock lock(mutex_);
  end_->freed();
  return true;
}

// The driver treats memory as free only once the host has seen the free. The host sees it through an event that is
// recorded after the free.
void DriverPool::remember_free(std::uint64_t stream, CUstream native) noexcept {
  constexpr std::size_t few = 32;
  const std::scoped_lock lock(mutex_);
  if (frees_.size() >= std::max(few, most_frees_)) {
    std::erase_if(frees_, [this](const auto& free) { return see_if_over(*free.second, gpu_); });
    most_frees_ = 2 * frees_.size();
  }
  auto known = frees_.find(stream);
  const bool first = known == frees_.end();
  const bool remembered = insist([&] {
    if (known == frees_.end()) known = frees_.emplace(stream, gpu_.events().take()).first;
    return driver().EventRecord(known->second->handle, native) == CUDA_SUCCESS;
  });
  if (remembered) return;
  if (first) frees_.erase(stream);  // its event is behind no free
  end_->follow(native);
}

void DriverPool::see_frees() noexcept {
  const std::scoped_lock lock(mutex_);
  for (const auto& [stream, free] : frees_) see_if_over(*free, gpu_);
  end_->see();
}

// Wait without the lock. Frees that the driver could not wait for are left to the next call, unless their stream has a
// newer free.
void DriverPool::wait_for_frees() noexcept {
  const auto wait = [this](const PooledEvent& free) {
    const auto waited = driver().EventSynchronize(free.handle);
    report_failure(waited, "cuEventSynchronize", gpu_);
    return waited == CUDA_SUCCESS || is_last_answer(waited);
  };
  see_frees();  // nobody else finds those that are taken out next
  PoolFrees frees;
  EventRef own;
  {
    const std::scoped_lock lock(mutex_);
    frees.swap(frees_);
    own = end_->take_last();
  }
  std::erase_if(frees, [&](const auto& free) { return wait(*free.second); });
  if (own && wait(*own)) own = {};
  const std::scoped_lock lock(mutex_);
  frees_.merge(frees);
  if (own) end_->put_last(std::move(own));
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
  const ReleaseScope scope(gpu_.context(), gpu_);  // go on even if this fails: the calls name what they work on
  may_wait ? wait_for_frees() : see_frees();
  std::size_t keep = 0;  // memory in use stays, whatever this is; the driver may overstate how much that is
  if (bytes_to_keep != 0) {
    const auto used = ask(CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    keep = used + std::min(bytes_to_keep, SIZE_MAX - used);
    if (keep >= ask(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)) return;  // drivers round it up, which may overflow
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

// The source of a plain resource. It keeps all memory that it ever took until somebody trims it or memory runs out.
std::shared_ptr<spi::Source> source(spi::DeviceState& device, MemoryKind kind) {
  if (kind != MemoryKind::async) return nullptr;
  return std::make_shared<DriverPool>(gpu_of(device), std::numeric_limits<std::size_t>::max(), 0);
}

}  // namespace weir::cuda
