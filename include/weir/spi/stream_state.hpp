// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is behind a weir::Stream: a timeline with two halves. The front half (src/stream/, the same for every backend)
// numbers the work, keeps what cannot be submitted yet in a software queue, answers questions from numbers it already knows,
// and owns what waits for its points. The back half (the do_ functions, one class per backend) talks to the driver.

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <variant>

#include "weir/spi/attachment.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/job.hpp"
#include "weir/spi/kept.hpp"
#include "weir/spi/ref.hpp"
#include "weir/spi/segment.hpp"
#include "weir/spi/sync.hpp"
#include "weir/spi/use_count.hpp"
#include "weir/spi/waiter.hpp"
#include "weir/stream.hpp"

namespace weir::detail {
class Watcher;
}

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
  Kept other;
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

/// Nothing; makes a point that can be observed. With `looks`, for somebody who does not name the timeline: not put when
/// nobody does.
struct MarkOp {
  bool looks = false;
};

/// Work that the backend has put on its native stream already: gives it a number.
struct NativeOp {};

using Op = std::variant<CopyOp, FillOp, CallOp, WaitOp, FreeOp, PrefetchOp, MarkOp, NativeOp>;

/// How far a timeline is, for those that keep memory by stream.
struct Progress {
  std::uint64_t outside;  ///< a value that covers what others put on the stream before; 0 when nobody does
  std::uint64_t over;     ///< nothing up to this value can touch memory any more
};

/// A timeline. Values grow by one per operation; a value is *submitted* once the driver has it and *reached* once it is
/// complete. Everything public is thread-safe.
///
/// It has two counts. A *use* is held by whoever names the stream, which are Streams and Events (Ref), and by live memory that
/// was allocated or used on it. When nobody names it any more it is *forgotten*: what others put on its native stream is marked,
/// and from then on only owners of its memory ask that stream. With the last use the timeline is *closed*: nobody asks the
/// native stream again, only events recorded before. Whoever merely waits for a point of it *keeps* it (Kept), as does the
/// queue of what waits.
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

  /// A value that covers all work so far, also work that came from outside weir, which costs a driver call. On the
  /// library's own threads it covers work from outside only up to the last value: they may not ask an application's
  /// stream.
  std::uint64_t position() noexcept { return position(MarkOp{}); }
  /// As above, and recorded in the driver now, so that it does not cover later work.
  std::uint64_t mark();
  /// The last value given out; costs one load. Work from outside weir may come after it.
  std::uint64_t issued() const noexcept { return issued_.load(std::memory_order_relaxed); }
  /// By an owner of memory that was allocated here, before the memory is given back, or another's: of a stream on which
  /// others put work, cover what they have put until now. Nobody may ask later when nobody names it any more.
  void mark_outside() noexcept;
  /// The same, but only if nobody names it: else whoever names it last does.
  void mark_forgotten() noexcept;
  /// By an owner of memory that was used here up to `value`, likewise.
  void mark_used(std::uint64_t value) noexcept;
  /// How far the work is; asks the driver. Of an application's stream that nobody names, only what was marked.
  Progress progress() noexcept;

  /// Whether `value` is complete. Never blocks; may submit a marker and flush. False also when the driver could not be
  /// asked just now: while somebody captures the stream, without memory.
  bool reached(std::uint64_t value) noexcept;
  /// The same from what is known already: costs one load.
  bool known_reached(std::uint64_t value) const noexcept { return reached_.load(std::memory_order_acquire) >= value; }
  /// Whether nothing up to `value` can touch memory any more: it is complete, or the timeline is lost and what the
  /// driver had of it is over. Never blocks. Memory may be reused only then.
  bool finished(std::uint64_t value) noexcept;
  /// Block until complete; a negative timeout means no limit. Throws when the driver could not be asked and may be asked
  /// again.
  WaitStatus wait_for(std::uint64_t value, std::chrono::nanoseconds timeout);

  /// Have `passed(waiter)` called once nothing up to `value` can touch memory any more, by whoever looks after that
  /// (`settle`). With `watched`, a thread of the library looks in the end; also if `or_if` says so in the step in which the
  /// waiter joins the queue: who sets it and then calls watch() misses nobody. False when the value is known to be reached:
  /// then nothing is called. The timeline is kept until then. Needs no memory.
  [[nodiscard]] bool after(std::uint64_t value, Waiter& waiter, Waiter::Passed passed, bool watched,
                           const sync::Atomic<bool>* or_if = nullptr) noexcept;
  /// Whoever used the timeline will only keep it, and wait for `value`: it can still be found out when nobody uses it.
  void awaited(std::uint64_t value) noexcept;
  /// Let a thread of the library look after what waits already, too.
  void watch() noexcept;
  /// Look after what waits: call at most `most` of those whose values have passed. Costs what has passed, and at most one
  /// question to the driver beside it, and what others have in hand is waited for. Returns how many were called.
  std::size_t settle(std::size_t most = ~std::size_t{0}) noexcept;
  /// Hand everything submitted so far to the device.
  void flush();

  /// Whether the driver has `value` already.
  bool submitted(std::uint64_t value) const noexcept { return submitted_.load(std::memory_order_acquire) >= value; }
  /// Block until the driver has `value`. False when the timeline is lost before.
  bool wait_submitted(std::uint64_t value);
  /// Make sure that a point covering `value` (already submitted) can be observed by the driver, and flushed.
  void ensure_marked(std::uint64_t value);

  /// Whether nobody will ever know when `value` is over: the native stream ended before it could be marked.
  [[nodiscard]] bool never_known(std::uint64_t value) const noexcept {
    return ended_unmarked_.load(std::memory_order_acquire) && marked_.load(std::memory_order_acquire) < value;
  }
  /// Whether a driver error ended this timeline.
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Throw the error that ended it, if any.
  void throw_if_lost();

  // Uses by those who name it: the native stream is there for as long.
  void retain() noexcept { uses_.add(); }
  /// As retain, unless the timeline is closed; for those that hold no such use.
  bool try_retain() noexcept;
  void release() noexcept {
    if (!uses_.drop()) forget();
  }
  // Uses by memory: live, and allocated or used here. Whether it has an owner who knows the native stream is not known.
  void retain_memory() noexcept { uses_.add_memory(); }
  void release_memory() noexcept;
  /// The same for somebody who is no owner of memory: the native stream is not asked, whatever that loses.
  void release_unasked() noexcept;
  [[nodiscard]] bool closed() const noexcept { return uses_.ended(); }

  void keep() noexcept { kept_.fetch_add(1, std::memory_order_relaxed); }
  void unkeep() noexcept {
    if (kept_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
  }

  /// What `owner` attached for that thread (0: for everybody), or null. The caller keeps the owner alive, and the stream.
  void* attached(const void* owner, sync::ThreadId thread = 0) const noexcept {
    for (const Attachment* one = attachments_.load(std::memory_order_acquire); one; one = one->next) {
      if (one->owner.load(std::memory_order_acquire) == owner && one->thread == thread) return one->object;
    }
    return nullptr;
  }
  /// Attach `object` for `owner`, unless another thread was faster; return what is attached now. The caller holds a use.
  /// Throws only for want of memory, and then attached nothing.
  void* attach(const void* owner, sync::ThreadId thread, void* object, const AttachmentEvents* events);

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
  /// The last use is gone. From now on the first group is not called for a foreign stream, whose native handle may end.
  virtual void do_close() noexcept {}
  /// Nobody keeps the timeline any more. Default: delete this. Pending work must still complete.
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
  using Lock = std::unique_lock<sync::Mutex>;

  // submission.cpp
  bool must_hold(const Op& op) const noexcept;
  std::uint64_t hold(Op&& op);
  void submit(Op& op, std::uint64_t value);
  void free_later(FreeOp& op, std::uint64_t value) noexcept;
  static bool needs_somebody(const Op& op) noexcept;
  void take_turn(Lock& lock);
  void mark_in_turn();
  void mark_up_to(std::uint64_t value);
  void end_turn(Lock& lock) noexcept;

  // completion.cpp
  std::uint64_t position(MarkOp mark) noexcept;
  bool try_mark();
  /// Needs the lock, or the turn: whether those who neither name it nor own memory of it may use the native stream.
  bool may_look() const noexcept { return !sealed_ && !forgotten_; }

  // loss.cpp
  static bool says_gone(const std::exception_ptr& error) noexcept;
  bool become_lost(const std::exception_ptr& error) noexcept;
  void report_lost() noexcept;
  void lose_if_gone(const std::exception_ptr& error) noexcept;

  // worker.cpp
  template <class Action>
  static void until_possible(StreamState& asked, const Action& action);
  void start_worker();
  void work() noexcept;
  void submit_held(Op& op, std::uint64_t value);
  void run_call(CallOp& op, std::uint64_t value);

  // attachments.cpp
  friend class AttachmentLock;
  [[nodiscard]] bool has_memory() const noexcept;
  void tell_forgotten() noexcept;
  bool tell_over() noexcept;

  // lifetime.cpp
  void forget() noexcept;
  void become_forgotten() noexcept;
  [[nodiscard]] bool owes() const noexcept;
  void close() noexcept;
  std::uint64_t seal() noexcept;
  [[nodiscard]] bool mark_for_good() noexcept;
  void end() noexcept;
  /// What waits for the last value of a closed timeline, and what goes on with it on the library's thread.
  struct End : Waiter, Job {
    StreamState* of;
  };

  // waiters.cpp
  friend class detail::Watcher;
  void take_passed(std::uint64_t first, std::size_t most, InHand& hand, Kept& of_queue) noexcept;

  // fork.cpp
  friend class ForkLink;
  void fork(ForkMoment moment) noexcept;
  void lose_inherited() noexcept;
  void forget_worker() noexcept;
  void forget_first() noexcept;
  void resume() noexcept;

  DeviceState* device_;
  std::uint64_t id_;
  UseCount uses_;
  sync::Atomic<std::uint32_t> kept_{1};  // all uses together, the worker, the queue of what waits, and each Kept
  sync::Atomic<Attachment*> attachments_{nullptr};

  sync::Mutex mutex_;
  sync::Condition changed_;                   // queue_, the turn, submitted_, lost_
  std::list<Pending> queue_;                  // held back, in order; the worker leaves the one it works on in front
  sync::Plain<std::uint64_t> turn_ = 0;       // whose turn it is to be inside the first group
  sync::Plain<std::uint64_t> next_turn_ = 0;  // whose it will be who asks next
  sync::Plain<bool> inside_ = false;          // somebody is
  sync::Plain<bool> worker_ = false;          // a worker thread exists
  sync::Plain<bool> mark_wanted_ = false;     // asked for while somebody else had the turn
  bool forking_ = false;                      // a fork waits for the turn
  bool calling_ = false;                      // the worker is inside a host function
  sync::Plain<bool> forgotten_ = false;       // foreign, and nobody names it: only owners of its memory ask the native stream
  sync::Plain<bool> sealed_ = false;          // closed and foreign: the native stream is not used any more
  std::exception_ptr error_;
  sync::Atomic<bool> lost_{false};
  sync::Atomic<bool> ended_unmarked_{false};  // lost by the refusal of its last mark
  sync::Atomic<std::uint64_t> issued_{0};     // last value given out
  sync::Atomic<std::uint64_t> submitted_{0};  // last value the driver has
  sync::Atomic<std::uint64_t> marked_{0};     // last value that is observable and flushed, or need not be
  sync::Atomic<std::uint64_t> reached_{0};    // last value known complete
  sync::Atomic<std::uint64_t> awaited_{0};    // last value that somebody waits for who does not use the timeline

  End end_;

  sync::Mutex waiting_mutex_;
  WaiterQueue waiting_;
  sync::Atomic<std::uint32_t> called_{0};  // threads that have some in hand, and call them
  sync::Plain<bool> watched_ = false;      // the library's thread looks after the queue
  StreamState* next_watched_ = nullptr;  // of that thread

  // For a forked child, in which the worker does not exist.
  enum class First : std::uint8_t { untouched, called, over };
  sync::Thread::id worker_id_;
  sync::Atomic<First> first_{First::untouched};  // how far the worker is with the first of queue_
  sync::Atomic<bool> orphaned_{false};           // queue_ is the parent's; needs a new worker when somebody asks
  std::uint64_t inherited_ = 0;                  // last value of the parent's when work was held back then
  ForkLink link_{*this};                         // last
};

}  // namespace weir::spi
