// SPDX-License-Identifier: Apache-2.0
#pragma once
// Order. A Stream is a timeline on which work is put; an Event is a point of it. Then memory_resource.hpp.

#include <chrono>
#include <cstdint>
#include <functional>

#include "weir/device.hpp"
#include "weir/fwd.hpp"
#include "weir/spi/ref.hpp"

namespace weir {

/// Outcome of a bounded wait. After `timeout` the work goes on and the object still says that it is running.
enum class WaitStatus { ready, timeout, lost };

/// A point on a stream's timeline. A value; keeps the timeline alive. Default-constructed events are done.
class Event {
 public:
  Event() noexcept = default;
  /// Whether everything before the point is complete. Never blocks. Starts work that was held back for batching. False
  /// for good on a lost stream: only a wait tells that from work that is still running. False for now when the driver
  /// cannot be asked: while the stream's owner captures it, or without memory.
  [[nodiscard]] bool done() const;
  /// Block until complete. Throws device_lost when it never will be, and what the driver said when it could not be
  /// asked: then wait again.
  void wait() const;
  /// Block for at most `timeout`; a negative timeout means no limit. Does not throw for a lost stream: an event is
  /// often waited for by a caller that did not put the work there, so the end of the stream is one of its outcomes and
  /// is returned as `lost`. `Stream::synchronize(timeout)` throws instead. Throws what the driver said when it could
  /// not be asked.
  [[nodiscard]] WaitStatus wait(std::chrono::nanoseconds timeout) const;

  Event(spi::Ref<spi::StreamState> timeline, std::uint64_t value) noexcept;  ///< for backends
  [[nodiscard]] spi::StreamState* timeline() const noexcept { return timeline_.get(); }
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  spi::Ref<spi::StreamState> timeline_;
  std::uint64_t value_ = 0;
};

/// Shared handle of an ordered queue of work on one device. Copies name the same stream; safe to use from any thread.
/// There is no default stream. Work still pending when the last handle goes away is completed, not cancelled.
///
/// Each thread submits its own work, in the order in which the calls came. A call that the driver refuses throws, has
/// put nothing, and leaves the stream and the work of other threads as they were, unless the device is lost.
class Stream {
 public:
  explicit Stream(const Device& device);

  [[nodiscard]] Device device() const noexcept;
  [[nodiscard]] std::uint64_t id() const noexcept;  ///< unique in this process, never reused

  /// The point after everything put on the stream so far.
  [[nodiscard]] Event record() const;
  /// Order everything put on this stream from now on after `event`, of any stream of any backend. Does not block: a
  /// point that this stream's device cannot wait for by itself is waited for by a worker thread. One exception: a
  /// stream whose native handle others use cannot be held back, so its wait for a point of its own backend that is
  /// still held back elsewhere returns once the driver has that point.
  void wait(const Event& event) const;
  /// Block until everything put on the stream so far is complete. Throws device_lost.
  void synchronize() const;
  /// As above for at most `timeout`; a negative timeout means no limit. Truthful: after `timeout` the stream is still
  /// running. Like every call on a lost stream it throws, also when the stream is lost meanwhile; it never returns
  /// `lost`, which is what `Event::wait(timeout)` does.
  [[nodiscard]] WaitStatus synchronize(std::chrono::nanoseconds timeout) const;
  /// Whether everything put on the stream so far is complete. Never blocks. Throws device_lost.
  [[nodiscard]] bool done() const;
  /// Hand work that was held back for batching to the device now.
  void flush() const;
  /// Run `function` on another thread when the stream gets there; later work waits for it. It must not use a GPU API
  /// (CUDA forbids it in host functions) or wait for this stream. An exception goes to the failure sink.
  void call(std::function<void()> function) const;

  friend bool operator==(const Stream& a, const Stream& b) noexcept { return a.state_.get() == b.state_.get(); }

  explicit Stream(spi::Ref<spi::StreamState> state) noexcept;  ///< for backends
  /// Throws `closed` after a move.
  [[nodiscard]] spi::StreamState& state() const {
    if (!state_) [[unlikely]] throw_moved_from();
    return *state_;
  }

 private:
  [[noreturn]] static void throw_moved_from();

  spi::Ref<spi::StreamState> state_;
};

}  // namespace weir
