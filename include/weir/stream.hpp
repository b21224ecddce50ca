// SPDX-License-Identifier: Apache-2.0
#pragma once
// How work is ordered. A Stream is a timeline that work is put on; an Event is a point on a timeline. Next, read
// memory_resource.hpp.

#include <chrono>
#include <cstdint>
#include <functional>

#include "weir/device.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/spi/ref.hpp"

namespace weir {

/// Outcome of a bounded wait. After `timeout` the work continues, and the object still reports that it is running.
enum class WaitStatus {
  ready,    ///< everything before the point is complete
  timeout,  ///< the time is over
  lost      ///< the stream is lost: it never gets there
};

/// A point on a stream's timeline. An Event is a value, and keeps the timeline alive. Default-constructed events are
/// done.
class WEIR_API Event {
 public:
  Event() noexcept = default;
  /// Return whether everything before the point is complete. Never blocks. Hands work that was held back for batching
  /// to the device. Stays false on a lost stream; only a wait tells that from work that is still running. Also false
  /// for as long as the driver cannot be asked, because the stream's owner captures it or because there is no memory.
  [[nodiscard]] bool done() const;
  /// Block until everything before the point is complete. Throws device_lost when that will never be (peer_gone when
  /// the stream waited for a process that ended). Throws the driver's error when the driver could not be asked; the
  /// wait may then be repeated.
  void wait() const;
  /// Block for at most `timeout`; a negative timeout means no limit. Does not throw for a lost stream: an event is
  /// often waited for by a caller that did not put the work there, so the end of the stream is one of its outcomes and
  /// is returned as `lost`. `Stream::synchronize(timeout)` throws instead. Throws the driver's error when the driver
  /// could not be asked.
  [[nodiscard]] WaitStatus wait(std::chrono::nanoseconds timeout) const;

  Event(spi::Ref<spi::StreamState> timeline, std::uint64_t value) noexcept;  ///< for backends
  [[nodiscard]] spi::StreamState* timeline() const noexcept { return timeline_.get(); }  ///< for backends; may be null
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }  ///< for backends; on the timeline

 private:
  spi::Ref<spi::StreamState> timeline_;
  std::uint64_t value_ = 0;
};

/// Shared handle of an ordered queue of work on one device. Copies name the same stream, and any thread may use them.
/// There is no default stream. Work that is pending when the last handle goes away is completed, not cancelled.
///
/// Each thread submits its own work, in the order in which the calls came. A call that the driver refuses throws and
/// has put nothing on the stream. It leaves the stream and the work of other threads as they were, unless the device is
/// lost.
///
/// A moved-from handle can be assigned to, compared and destroyed. Everything else throws closed.
class WEIR_API Stream {
 public:
  /// Make a new stream of `device`. Throws the driver's error; unsupported in a forked child that may not use `device`.
  explicit Stream(const Device& device);

  [[nodiscard]] Device device() const;     ///< which does the work
  [[nodiscard]] std::uint64_t id() const;  ///< unique in this process, never reused

  /// Return the point after everything put on the stream so far.
  [[nodiscard]] Event record() const;
  /// Order everything put on this stream from now on after `event`, which may be of any stream of any backend. Does not
  /// block: where this stream's device cannot wait for the point by itself, a worker thread waits. The one exception is
  /// a stream whose native handle others use, because such a stream cannot be held back. If it is to wait for a point
  /// of its own backend that is still held back on another stream, the call returns once the driver has that point.
  void wait(const Event& event) const;
  /// Block until everything put on the stream so far is complete. Throws device_lost.
  void synchronize() const;
  /// The same for at most `timeout`; a negative timeout means no limit. When this returns `timeout`, the stream is
  /// still running. Like every call on a lost stream it throws, also when the stream is lost during the wait. It never
  /// returns `lost`; only `Event::wait(timeout)` does.
  [[nodiscard]] WaitStatus synchronize(std::chrono::nanoseconds timeout) const;
  /// Return whether everything put on the stream so far is complete. Never blocks. Throws device_lost.
  [[nodiscard]] bool done() const;
  /// Hand work that was held back for batching to the device now.
  void flush() const;
  /// Enqueue a host function: `function` runs on another thread when the stream gets there, and later work waits for
  /// it. `function` must not use a GPU API (CUDA forbids that in host functions) or wait for this stream. An exception
  /// from it goes to the failure sink. Most signals are blocked there; a program that it starts inherits that. Throws
  /// invalid_argument for an empty function.
  void call(std::function<void()> function) const;

  /// Return whether both are handles of the same stream.
  friend bool operator==(const Stream& a, const Stream& b) noexcept { return a.state_.get() == b.state_.get(); }

  explicit Stream(spi::Ref<spi::StreamState> state) noexcept;  ///< for backends
  /// Return the state behind this handle. Throws closed after a move.
  [[nodiscard]] spi::StreamState& state() const {
    if (!state_) [[unlikely]] throw_moved_from();
    return *state_;
  }

 private:
  [[noreturn]] static void throw_moved_from();

  spi::Ref<spi::StreamState> state_;
};

}  // namespace weir
