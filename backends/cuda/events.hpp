// SPDX-License-Identifier: Apache-2.0
#pragma once
// Driver events that are used again and again. An event belongs to one context: recorded elsewhere, it fails.

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "weir/spi/ref.hpp"

namespace weir::cuda {

class EventPool;

/// One CUevent with its owners: the stream that recorded it and the threads that wait for it. It is recorded again
/// only after all of them let it go.
struct PooledEvent {
  CUevent handle = nullptr;
  EventPool* pool = nullptr;
  PooledEvent* next = nullptr;
  std::atomic<std::uint32_t> owners{0};
};
void ref_retain(PooledEvent* event) noexcept;
void ref_release(PooledEvent* event) noexcept;
using EventRef = spi::Ref<PooledEvent>;

/// Free list of one context's events. Never destroyed: the context may go before, and takes its events along.
class EventPool {
 public:
  explicit EventPool(CUcontext context) noexcept : context_(context) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  /// The pool of a context that is not a device's primary one; the same for the same context.
  static EventPool& of(CUcontext context);

  /// An event to record, without timing. Throws what cuEventCreate refuses.
  EventRef take();

 private:
  friend void ref_release(PooledEvent* event) noexcept;
  void put(PooledEvent* event) noexcept;

  CUcontext context_;
  std::mutex mutex_;
  PooledEvent* free_ = nullptr;
};

}  // namespace weir::cuda
