// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is behind a weir::Stream: a timeline with two halves. The front half (src/stream_state.cpp and stream_worker.cpp,
// the same for every backend) numbers the work, keeps what cannot be submitted yet in a software queue, and answers
// questions from numbers it already knows. The back half (the do_ functions, one class per backend) talks to the driver.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <variant>

#include "weir/spi/attachment.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/ref.hpp"
#include "weir/spi/segment.hpp"
#include "weir/stream.hpp"

namespace weir::spi {

/// Copy `bytes` (> 0) between two places that this stream's backend can reach (StreamOps::reaches). Ranges of one
/// segment do not overlap.
struct CopyOp {
  Location dst, src;
  std::size_t bytes;
};

/// Repeat a pattern of 1, 2, 4 or 8 bytes over `bytes` (> 0, a multiple of the pattern). Any offset.
struct FillOp {
  Location dst;
  std::size_t bytes;
  std::uint64_t pattern;  ///< in the low pattern_bytes bytes, little-endian
  std::uint32_t pattern_bytes;
};

/// Run on a host thread; later work waits for it.
struct CallOp {
  std::function<void()> function;
  bool repeatable = false;  ///< a second run after half a run leaves what one run leaves
};

/// Order what follows after a point of another timeline.
struct WaitOp {
  Ref<StreamState> other;
  std::uint64_t value;
};

/// Return a segment in stream order (Segment::free_in_order); owns it.
struct FreeOp {
  Ref<Segment> segment;
};

/// Move memory of a kind that moves (StreamOps::prefetches) to where it is used next. Changes no byte.
struct PrefetchOp {
  Location at;
  std::size_t bytes;
  DeviceState* to;
};

/// Nothing; makes a point that can be observed.
struct MarkOp {};

/// Work that the backend has put on its native stream already: gives it a number.
struct NativeOp {};

using Op = std::variant<CopyOp, FillOp, CallOp, WaitOp, FreeOp, PrefetchOp, MarkOp, NativeOp>;

/// A timeline. Counted by Streams, Events, Buffers and its own worker. Values grow by one per operation; a value is
/// *submitted* once the driver has it and *reached* once it is complete. Everything public is thread-safe.
class StreamState {
 public:
  explicit StreamState(DeviceState& device);
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  DeviceState& device() const noexcept { return *device_; }
  std::uint64_t id() const noexcept { return id_; }

  /// Put one operation on the timeline and return its value. Submits at once when nothing is held back, else a worker
  /// submits it later. Throws what the driver's refusal throws, then nothing was put.
  std::uint64_t put(Op op);

  /// A value that covers all work so far, also work that came from outside weir. Costs no driver call.
  std::uint64_t position() noexcept;
  /// As above, and recorded in the driver now, so that it does not cover later work.
  std::uint64_t mark();
  /// The last value given out; costs one load. Work from outside weir may come after it.
  std::uint64_t issued() const noexcept { return issued_.load(std::memory_order_relaxed); }
  /// How far the work is; asks the driver. For who keeps memory by stream.
  Attachment::Progress progress() noexcept;

  /// Whether `value` is complete. Never blocks; may submit a marker and flush.
  bool reached(std::uint64_t value);
  /// Whether nothing up to `value` can touch memory any more: it is complete, or the timeline is lost and what the
  /// driver had of it is over. Never blocks. Memory may be reused only then.
  bool finished(std::uint64_t value);
  /// Block until complete; a negative timeout means no limit.
  WaitStatus wait_for(std::uint64_t value, std::chrono::nanoseconds timeout);
  /// Hand everything submitted so far to the device.
  void flush();

  /// Whether the driver has `value` already.
  bool submitted(std::uint64_t value) const noexcept { return submitted_.load(std::memory_order_acquire) >= value; }
  /// Block until the driver has `value`. False when the timeline is lost before.
  bool wait_submitted(std::uint64_t value);
  /// Make sure that a point covering `value` (already submitted) can be observed by the driver, and flushed.
  void ensure_marked(std::uint64_t value);

  /// Whether a driver error ended this timeline.
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Throw the error that ended it, if any.
  void throw_if_lost();

  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  /// As retain, unless the last owner is gone already; for caches that hold no count.
  bool try_retain() noexcept {
    auto owners = owners_.load(std::memory_order_relaxed);
    while (owners != 0) {
      if (owners_.compare_exchange_weak(owners, owners + 1, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  [[nodiscard]] bool has_one_owner() const noexcept { return owners_.load(std::memory_order_acquire) == 1; }
  void release() noexcept {
    auto owners = owners_.load(std::memory_order_relaxed);
    while (owners != 1) {
      if (owners_.compare_exchange_weak(owners, owners - 1, std::memory_order_acq_rel)) return;
    }
    release_last();
  }

  /// What `owner` attached, or null. The caller keeps both the stream and the owner alive.
  void* attached(const void* owner) const noexcept {
    for (const Attachment* one = attachments_.load(std::memory_order_acquire); one; one = one->next) {
      if (one->owner.load(std::memory_order_acquire) == owner) return one->object;
    }
    return nullptr;
  }
  /// Attach `object` for `owner`, unless another thread was faster; return what is attached now. Throws only for want of
  /// memory, and then attached nothing.
  void* attach(const void* owner, void* object, Attachment::Unused unused);

 protected:
  virtual ~StreamState();

  // The back half. The first group is called by one thread at a time, in timeline order, without the front's lock
  // held; `value` is the operation's own. A function that throws has submitted nothing.
  virtual void do_copy(const CopyOp& op, std::uint64_t value) = 0;
  virtual void do_fill(const FillOp& op, std::uint64_t value) = 0;
  /// Native host function; only called when `calls_natively()`. Must not block. Takes `function` over only on success.
  virtual void do_call(std::function<void()>& function, std::uint64_t value);
  /// Native wait for a point of `other`, which the driver already has; only called when `waits_natively(other)`.
  /// `other.ensure_marked(wanted)` was called.
  virtual void do_wait(StreamState& other, std::uint64_t wanted, std::uint64_t value);
  /// Only called for what StreamOps::prefetches names.
  virtual void do_prefetch(const PrefetchOp& op, std::uint64_t value);
  /// Make the completion of everything up to `value` observable (record an event, plan a semaphore signal).
  virtual void do_mark(std::uint64_t value) = 0;
  /// Hand what is batched to the device; afterwards every marked value completes without further calls.
  virtual void do_flush() = 0;

  // The second group is called by any thread at any time, also beside the first.
  /// Largest value known to be complete: ask the driver. Throws when the device is lost.
  virtual std::uint64_t do_poll() = 0;
  /// Block until the marked and flushed `value` is complete. Negative timeout: no limit. Throws when lost.
  virtual WaitStatus do_wait_host(std::uint64_t value, std::chrono::nanoseconds timeout) = 0;
  /// The device is lost: whether work put here still runs, on the host or on another device, which nobody can wait for.
  virtual bool outlives_device() noexcept { return false; }

  virtual bool calls_natively() const noexcept { return false; }
  virtual bool waits_natively(const StreamState& /*other*/) const noexcept { return false; }
  /// True for a stream on which others put work natively (borrowed, or whose native handle was given out): every
  /// position then is a new value, and nothing is ever held back in software: do_wait gets every wait, and a point of
  /// the own backend only once the driver has it (`put` blocks until then: a device-side wait for work that is not
  /// submitted can occupy the hardware queue which that work needs).
  virtual bool foreign() const noexcept { return false; }
  /// Last reference is gone. Default: delete this. Pending work must still complete.
  virtual void destroy() noexcept { delete this; }

  /// Everything up to `value` is complete; for back halves that know without being asked.
  void complete(std::uint64_t value) noexcept;
  /// End the timeline: every later call fails with this error. Reported once.
  void lose(std::exception_ptr error) noexcept;

 private:
  struct Pending {
    Op op;
    std::uint64_t value;
  };
  using Lock = std::unique_lock<std::mutex>;
  bool must_hold(const Op& op) const noexcept;
  void submit(Op& op, std::uint64_t value);
  void submit_held(Op& op, std::uint64_t value);
  void free_later(FreeOp& op, std::uint64_t value) noexcept;
  void run_call(CallOp& op, std::uint64_t value);
  void take_turn(Lock& lock);
  bool try_mark();
  void mark_in_turn();
  void end_turn(Lock& lock) noexcept;
  void start_worker();
  void work() noexcept;
  friend class AttachmentLock;
  void release_last() noexcept;
  void end() noexcept;

  // stream_fork.cpp
  friend class ForkLink;
  void fork(ForkMoment moment) noexcept;
  void lose_inherited() noexcept;
  void forget_worker() noexcept;
  void forget_first() noexcept;
  void resume() noexcept;

  DeviceState* device_;
  std::uint64_t id_;
  std::atomic<std::uint32_t> owners_{1};
  std::atomic<Attachment*> attachments_{nullptr};

  std::mutex mutex_;
  std::condition_variable changed_;       // queue_, turn_, submitted_, lost_
  std::list<Pending> queue_;              // held back, in order; the worker leaves the one it works on in front
  bool turn_ = false;                     // somebody is inside the first group
  bool worker_ = false;                   // a worker thread exists
  bool mark_wanted_ = false;              // asked for while somebody else had the turn
  bool forking_ = false;                  // a fork waits for the turn
  bool calling_ = false;                  // the worker is inside a host function
  std::exception_ptr error_;
  std::atomic<bool> lost_{false};
  std::atomic<std::uint64_t> issued_{0};     // last value given out
  std::atomic<std::uint64_t> submitted_{0};  // last value the driver has
  std::atomic<std::uint64_t> marked_{0};     // last value that is observable and flushed, or need not be
  std::atomic<std::uint64_t> reached_{0};    // last value known complete

  // For a forked child, in which the worker does not exist.
  enum class First : std::uint8_t { untouched, called, over };
  std::thread::id worker_id_;
  std::atomic<First> first_{First::untouched};  // how far the worker is with the first of queue_
  std::atomic<bool> orphaned_{false};           // queue_ is the parent's; needs a new worker when somebody asks
  std::uint64_t inherited_ = 0;                 // last value of the parent's when work was held back then
  ForkLink link_{*this};                        // last
};

}  // namespace weir::spi
