// SPDX-License-Identifier: Apache-2.0
#pragma once
// Driver events that are reused. An event belongs to one context: recording it in another context fails.

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "weir/spi/ref.hpp"

namespace weir::cuda {

class EventPool;

/// One CUevent with its owners: the stream that recorded it and the threads that wait for it. It is recorded again only
/// after all of them have released it.
struct PooledEvent {
  CUevent handle = nullptr;
  EventPool* pool = nullptr;
  PooledEvent* next = nullptr;
  std::atomic<std::uint32_t> owners{0};
};
void ref_retain(PooledEvent* event) noexcept;
void ref_release(PooledEvent* event) noexcept;
using EventRef = spi::Ref<PooledEvent>;

/// The free list of one context's events. Never destroyed: the context may end earlier, and its events end with it.
class EventPool {
 public:
  explicit EventPool(CUcontext context) noexcept : context_(context) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// Return the pool of a context that is not a device's primary one. The same context always gives the same pool.
  static EventPool& of(CUcontext context);

  /// Return an event to record, without timing. Throws when cuEventCreate refuses.
  EventRef take();

 private:
  friend void ref_release(PooledEvent* event) noexcept;
  void put(PooledEvent* event) noexcept;

  CUcontext context_;
  std::mutex mutex_;
  PooledEvent* free_ = nullptr;
};

}  // namespace weir::cuda
