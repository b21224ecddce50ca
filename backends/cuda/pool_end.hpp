// SPDX-License-Identifier: Apache-2.0
#pragma once
// The end of a driver's pool. It comes once the host has seen all frees of the pool's memory. If a pool is destroyed
// earlier, the driver (580.159) divides by zero, reads freed memory or hangs as soon as two threads synchronize at one
// time. Plain CUDA calls show that within 150 rounds.

#include <cuda.h>

#include <cstdint>
#include <exception>
#include <map>

#include "device.hpp"
#include "events.hpp"
#include "stream.hpp"
#include "stream/release_queue.hpp"

namespace weir::cuda {

/// A free of each stream, by the stream's id, which is the last one that could be remembered. The host may not have
/// seen it.
using PoolFrees = std::map<std::uint64_t, EventRef>;

/// If the free is complete, let the host see it: for some drivers the host has seen only what it waited for. Return
/// whether it has. Failures are reported.
bool see_if_over(const PooledEvent& free, const Gpu& gpu) noexcept;

/// Try `step`, which nobody repeats later, until it returns true, at most eight times. Return whether it did. A throw
/// counts as false.
template <class Step>
bool insist(Step step) noexcept {
  constexpr int tries = 8;
  for (int round = 0; round < tries; ++round) {
    try {
      if (step()) return true;
    } catch (const std::exception&) {  // once more
    }
  }
  return false;
}

/// A stream of a pool, and what the pool's end needs. It is made with the pool, so that neither the end nor a free
/// takes memory. The functions are called by one thread at a time.
class PoolEnd final : weir::detail::Release {
 public:
  /// Throws when the stream or its events cannot be made.
  explicit PoolEnd(Gpu& gpu);
  ~PoolEnd() = default;

  /// Return the stream for frees that need no stream of anybody's. Whoever frees on it calls `freed()` afterwards.
  [[nodiscard]] CUstream frees_on() const noexcept { return frees_on_->handle(); }
  void freed() noexcept;
  /// Have that stream wait for all work on `native` so far, a stream of the device's primary context.
  void follow(CUstream native) noexcept;
  /// The same for a stream of the current context, whose events nobody may keep. Takes memory.
  void follow(EventPool& events, CUstream native) noexcept;
  /// Let the host see the frees on that stream, if they are complete.
  void see() noexcept;
  /// Return the event behind the last free on that stream, for a thread that waits for it without the caller's lock.
  /// Null if there was none since the last call.
  [[nodiscard]] EventRef take_last() noexcept;
  /// That thread could not wait.
  void put_last(EventRef last) noexcept;
  /// Destroy `pool`, of which nothing is allocated, and this object. If frees are not complete, a thread of the library
  /// does it later. What the pool holds goes back to the device as soon as it is free. If a free is unknown, or the
  /// driver refuses each time to say when the pool may end, the pool is leaked, which is reported.
  void end(CUmemoryPool pool, PoolFrees frees) noexcept;

 private:
  [[nodiscard]] bool wait_for_work(CUstream native, const PooledEvent& event);
  void note(bool follows) noexcept;
  void run() noexcept override;
  void leave() noexcept;
  [[nodiscard]] bool has_seen_all() noexcept;
  [[nodiscard]] bool wait_for_all() noexcept;
  [[nodiscard]] bool add_point();

  Gpu& gpu_;
  spi::Ref<GpuStream> frees_on_;
  EventRef event_;        // for follow()
  EventRef last_;         // behind the last free on that stream
  bool freed_ = false;    // there was one since take_last()
  bool unknown_ = false;  // that stream does not come after all frees for which there is no event
  CUmemoryPool pool_ = nullptr;
  PoolFrees frees_;
};

}  // namespace weir::cuda
