// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is behind a weir::Stream: a timeline with two halves. The front half (src/stream/, the same for every backend)
// numbers the work, keeps in a software queue what cannot be submitted yet, answers questions from the numbers that it
// already knows, and owns the queue of what waits for its points. The back half (the do_ functions, one class per
// backend) talks to the driver.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <utility>

#include "weir/spi/attachment.hpp"
#include "weir/spi/fork_link.hpp"
#include "weir/spi/job.hpp"
#include "weir/spi/kept.hpp"
#include "weir/spi/op.hpp"
#include "weir/spi/ref.hpp"
#include "weir/spi/sync.hpp"
#include "weir/spi/use_count.hpp"
#include "weir/spi/waiter.hpp"
#include "weir/stream.hpp"

namespace weir::detail {
class Watcher;
}

namespace weir::spi {

/// How far a timeline is, for resources that keep memory by stream.
struct Progress {
  std::uint64_t outside;  ///< a value that covers what others have put on the stream; 0 when others put nothing there
  std::uint64_t over;     ///< nothing up to this value can touch memory any more
};

/// A timeline. Values grow by one per operation; a value is *submitted* once the driver has it and *reached* once it is
/// complete. Everything public is thread-safe.
///
/// A timeline has two counts. The first is of *uses*. A use is held by each object that names the stream, which are
/// Streams and Events (Ref), and by live memory that was allocated or used on it. When nobody names the stream any
/// more, the timeline is *forgotten*: what others have put on its native stream is marked, and from then on only owners
/// of its memory ask that stream. When the last use ends, the timeline is *closed*: nobody asks the native stream
/// again, only the events that were recorded before. The second count is of objects that only *keep* the timeline
/// (Kept): those that merely wait for a point of it, and the queue of what waits.
class StreamState {
 public:
  /// For derived classes. The timeline is new: it has one use that names it, and no value is given out.
  explicit StreamState(DeviceState& device);
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  DeviceState& device() const noexcept { return *device_; }  ///< which does the work
  std::uint64_t id() const noexcept { return id_; }          ///< what Stream::id() returns

  /// Put one operation on the timeline and return its value. The operation is submitted at once when nothing is held
  /// back; otherwise a worker submits it later. If the driver refuses the operation, this throws, and nothing was put
  /// but what the driver may have begun of an operation that takes several calls. `issued()` covers that.
  std::uint64_t put(Op op);
  /// Put a host function that another process waits for. If the device stops first, the function is destroyed soon
  /// after, although nobody in this process asks for anything.
  std::uint64_t put_promise(CallOp op);

  /// Return a value that covers all work so far, including work that came from outside weir, which costs a driver call.
  /// On the library's own threads the value covers work from outside only up to the last value, because these threads
  /// may not ask an application's stream.
  std::uint64_t position() noexcept { return position(MarkOp{}); }
  /// As above, but the driver records the point now, so that the value does not cover later work.
  std::uint64_t mark();
  /// Return the last value given out; costs one load. Work from outside weir may come after it.
  std::uint64_t issued() const noexcept { return issued_.load(std::memory_order_relaxed); }
  /// Return whether others put work here natively (`foreign()`).
  [[nodiscard]] bool has_work_from_outside() const noexcept { return foreign(); }
  /// Return a timeline whose points cover all work that is on the device when they are marked, this timeline's included.
  /// It stands in for an application's stream that was named for one call only, because its owner may destroy it after
  /// that. Null where the native stream lives as long as this timeline, or as the process, and where the backend has no
  /// such timeline.
  [[nodiscard]] virtual Ref<StreamState> stand_in() { return {}; }
  /// On a stream on which others put work, cover what they have put there so far. Called by an owner of memory that was
  /// allocated here, before it gives the memory back or leaves the memory to another owner: nobody may ask the stream
  /// later, when nobody names it any more.
  void mark_outside() noexcept {
    if (foreign()) (void)position();
  }
  /// The same, but only if nobody names the stream. Otherwise the last one that names it marks this work.
  void mark_forgotten() noexcept;
  /// The same for an owner of memory that was used here up to `value`: make sure that the point is marked.
  void mark_used(std::uint64_t value) noexcept;
  /// Ask the driver how far the work is. For an application's stream that nobody names, only what was marked counts.
  Progress progress() noexcept;

  /// Return whether `value` is complete. Never blocks; may submit a marker and flush. Also false when the driver cannot
  /// be asked at this moment: while somebody captures the stream, or for want of memory.
  bool reached(std::uint64_t value) noexcept;
  /// The same, from what is known already; costs one load.
  bool known_reached(std::uint64_t value) const noexcept { return reached_.load(std::memory_order_acquire) >= value; }
  /// Return whether nothing up to `value` can touch memory any more: `value` is complete, or the timeline is lost and
  /// the work that the driver had of it is over. Never blocks. Memory may be reused only then.
  bool finished(std::uint64_t value) noexcept {
    bool refused = false;
    return finished(value, refused);
  }
  /// The same. Sets `refused` if the timeline is lost, and nobody can be asked at this moment what is over: while
  /// somebody captures the stream, for want of memory, or because all handles of it are gone.
  bool finished(std::uint64_t value, bool& refused) noexcept;
  /// Block until `finished(value)`. Returns false when nobody will ever know.
  bool await_over(std::uint64_t value) noexcept;
  /// Block until `value` is complete; a negative timeout means no limit. Throws when the driver could not be asked;
  /// then the caller may ask again.
  WaitStatus wait_for(std::uint64_t value, std::chrono::nanoseconds timeout);

  /// Have `passed(waiter)` called once nothing up to `value` can touch memory any more, by the thread that looks first
  /// after that (`settle`). With `watched`, a thread of the library looks if no other does. It also does so if `or_if`
  /// is true in the step in which the waiter joins the queue: a thread that sets `or_if` and then calls watch() misses
  /// no waiter. The library's thread asks only about values that are watched, because a question may need a new
  /// point, and a point of a whole CUDA context spoils a capture that has begun. Returns false, and calls nothing, when
  /// the value is known to be reached. The timeline is kept until the call. Takes no memory.
  [[nodiscard]] bool after(std::uint64_t value, Waiter& waiter, Waiter::Passed passed, bool watched,
                           const sync::Atomic<bool>* or_if = nullptr) noexcept;
  /// Say that the caller, which has used the timeline, will only keep it and wait for `value`. The end of `value` can
  /// then be found out even when nobody uses the timeline any more.
  void awaited(std::uint64_t value) noexcept;
  /// Have a thread of the library look after everything that waits, including what waits already.
  void watch() noexcept;
  /// Look after what waits: call at most `most` of the waiters whose values have passed, and return how many were
  /// called. The cost is that of what has passed, and of at most one more question to the driver. Then wait until other
  /// threads have called the waiters that they have in hand, unless this is called from within such a call.
  std::size_t settle(std::size_t most = ~std::size_t{0}) noexcept { return settle(most, false); }
  /// Hand everything submitted so far to the device.
  void flush();

  /// Return whether StoreOps can be put here, provided that DeviceState::reach_host returned true for their memory.
  [[nodiscard]] virtual bool stores_natively() const noexcept { return false; }
  /// What on_false_stores() takes. Called on any thread.
  using Disbelieve = void (*)(const StreamState& timeline) noexcept;
  /// Have `disbelieve(timeline)` called before a device may carry out StoreOps of a timeline that is lost. There is one
  /// such function: a later one takes its place.
  static void on_false_stores(Disbelieve disbelieve) noexcept;

  /// Return whether the driver has `value` already.
  bool submitted(std::uint64_t value) const noexcept { return submitted_.load(std::memory_order_acquire) >= value; }
  /// Return whether a point covers everything up to `value` that the driver has.
  bool is_marked(std::uint64_t value) const noexcept {
    return marked_.load(std::memory_order_acquire) >= std::min(value, submitted_.load(std::memory_order_acquire));
  }
  /// Block until the driver has `value`. Returns false when the timeline is lost.
  bool wait_submitted(std::uint64_t value);
  /// Make sure that the driver can observe a point that covers `value`, and that this point is flushed. `value` must
  /// already be submitted.
  void ensure_marked(std::uint64_t value);
  /// The same for everything that the driver has, without throwing: a refused mark is left to the next caller that
  /// asks. Waits at most about 0.1 s for a thread that submits work here: it may need a lock that the caller has,
  /// such as Python's.
  void mark_submitted() noexcept;

  /// Return whether nobody will ever know when `value` is over: the native stream ended before it could be marked, or
  /// its memory was to be used after a stream for which that is so.
  [[nodiscard]] bool never_known(std::uint64_t value) const noexcept {
    return value >= never_free_.load(std::memory_order_acquire) ||
           (ended_unmarked_.load(std::memory_order_acquire) && marked_.load(std::memory_order_acquire) < value);
  }
  /// Return whether an error ended this timeline.
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Throw the error that ended this timeline, if there was one.
  void throw_if_lost();

  /// Add a use by an object that names the stream. The native stream is there for as long as such objects are.
  void retain() noexcept { uses_.add(); }
  /// As retain, for a caller that holds no such use. Returns false when the timeline is closed.
  bool try_retain() noexcept;
  /// Drop a use by an object that names the stream. Dropping the last one forgets the timeline.
  void release() noexcept {
    if (!uses_.drop()) forget();
  }
  /// Add a use by live memory that was allocated or used here. Whether an owner of that memory knows the native stream
  /// is not known.
  void retain_memory() noexcept { uses_.add_memory(); }
  /// Drop a use by memory. Dropping the last use of either sort closes the timeline.
  void release_memory() noexcept;
  /// As release_memory, for a caller that owns no memory: the native stream is not asked, whatever is lost by that.
  void release_unasked() noexcept;
  [[nodiscard]] bool closed() const noexcept { return uses_.ended(); }  ///< whether the last use has ended

  /// Add a count that keeps the timeline, as Kept does.
  void keep() noexcept { kept_.fetch_add(1, std::memory_order_relaxed); }
  /// Drop a count that keeps the timeline. Dropping the last one calls `destroy`.
  void unkeep() noexcept {
    if (kept_.fetch_sub(1, std::memory_order_acq_rel) == 1) end();
  }

  /// Return what `owner` attached for that thread (0: for all threads), or null. The caller keeps the owner and the
  /// stream alive.
  void* attached(const void* owner, sync::ThreadId thread = 0) const noexcept {
    for (const Attachment* one = attachments_.load(std::memory_order_acquire); one; one = one->next) {
      if (one->owner.load(std::memory_order_acquire) == owner && one->thread == thread) return one->object;
    }
    return nullptr;
  }
  /// Attach `object` for `owner`, unless another thread was faster, and return what is attached now. The caller holds a
  /// use. Throws only for want of memory, and then attached nothing.
  void* attach(const void* owner, sync::ThreadId thread, void* object, const AttachmentEvents* events);

 protected:
  virtual ~StreamState();

  // The back half. The functions of the first group are called by one thread at a time, in timeline order, without the
  // front half's lock. `value` is the value of the operation. A function that throws has submitted nothing.
  /// Put a copy on the stream.
  virtual void do_copy(const CopyOp& op, std::uint64_t value) = 0;
  /// Put a fill on the stream.
  virtual void do_fill(const FillOp& op, std::uint64_t value) = 0;
  /// Put a region copy on the stream.
  virtual void do_copy_region(const RegionOp& op, std::uint64_t value) = 0;
  /// Put a store on the stream. Called only when `stores_natively()`.
  virtual void do_store(const StoreOp& op, std::uint64_t value);
  /// Put a native host function on the stream. Called only when `calls_natively()`. Must not block. Takes `function`
  /// over only on success.
  virtual void do_call(std::function<void()>& function, std::uint64_t value);
  /// Put a native wait for a point of `op.other` on the stream. Called only when `waits_natively(*op.other)`. The
  /// driver already has the point, and `ensure_marked` was called for it, except for a foreign stream's wait for
  /// another backend.
  virtual void do_wait(const WaitOp& op, std::uint64_t value);
  /// Called only for memory and targets that StreamOps::prefetches accepts.
  virtual void do_prefetch(const PrefetchOp& op, std::uint64_t value);
  /// Make the completion of everything up to `value` observable (record an event, plan a semaphore signal).
  virtual void do_mark(std::uint64_t value) = 0;
  /// Hand everything that is batched to the device. Afterwards every marked value completes without further calls.
  virtual void do_flush() = 0;

  // The functions of the second group are called by any thread at any time, even while one of the first group runs.
  /// Ask the driver for the largest value that is known to be complete. Throws when the device is lost.
  virtual std::uint64_t do_poll() = 0;
  /// Block until `value`, which is marked and flushed, is complete. A negative timeout means no limit. Throws when the
  /// device is lost.
  virtual WaitStatus do_wait_host(std::uint64_t value, std::chrono::nanoseconds timeout) = 0;
  /// Called when the device is lost. Return whether work that was put here still runs on the host or on another device,
  /// where nobody can wait for it.
  virtual bool outlives_device() noexcept { return false; }

  /// Return whether do_call works. If not, a thread of the library runs host functions.
  virtual bool calls_natively() const noexcept { return false; }
  /// Return whether do_wait works for points of `other`. If not, a thread of the library waits for them.
  virtual bool waits_natively(const StreamState& /*other*/) const noexcept { return false; }
  /// Return whether do_wait may be called for `op` now, or it is held back, and a thread of the library waits. One
  /// thread at a time is in here or in a function of the first group. Unless it returns false, do_wait comes next.
  virtual bool may_wait_now(const WaitOp& /*op*/) noexcept { return true; }
  /// Return true for a stream on which others put work natively: it is borrowed, or its native handle was given out.
  /// Then every position is a new value, and nothing is ever held back in software. do_wait gets every wait, but a
  /// point of the stream's own backend only once the driver has that point. `put` blocks until then, because a
  /// device-side wait for work that is not submitted can occupy the hardware queue that this work needs.
  virtual bool foreign() const noexcept { return false; }
  /// Called when the last use is gone. From now on the native handle of a foreign stream may be destroyed, and the
  /// first group is not called for such a stream any more.
  virtual void do_close() noexcept {}
  /// Called when nobody keeps the timeline any more. Pending work must still complete. The default is `delete this`.
  virtual void destroy() noexcept { delete this; }

  /// Say that everything up to `value` is complete; for back halves that know this without being asked.
  void complete(std::uint64_t value) noexcept;
  /// End the timeline: every later call fails with this error. It is reported once, outside of any turn.
  void lose(std::exception_ptr error) noexcept { lose(std::move(error), false); }
  /// The same for a stream whose device already has work, and will go on with it, although what that work waits for
  /// will never be. Call this while the device still waits. Promises and StoreOps behind that wait do not count, and
  /// memory that the work uses is not free before the work is over.
  void lose_unready(std::exception_ptr error) noexcept;
  /// Say, of a stream that is about to be lost, that nobody will ever know when memory is free which work from `value`
  /// on was to use: it was to wait for other work on that memory.
  void never_free_from(std::uint64_t value) noexcept;

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
  /// Return whether callers that neither name the stream nor own memory of it may use the native stream. Needs the lock
  /// or the turn.
  bool may_look() const noexcept { return !sealed_ && !forgotten_; }
  /// Return false for what the driver says only now, when the timeline is lost.
  bool complete_unless_lost(std::uint64_t value) noexcept;
  /// Return whether a mark can still say when the work of the driver is over. Needs the lock or the turn.
  bool may_mark() const noexcept { return !sealed_ && (!lost() || goes_on_); }
  /// Return whether it is known that nothing up to `value` runs any more.
  bool known_over(std::uint64_t value) const noexcept;
  const WaitOp* awaited_space(std::uint64_t value) const noexcept;

  // loss.cpp
  static bool says_gone(const std::exception_ptr& error) noexcept;
  void lose(std::exception_ptr error, bool goes_on) noexcept;
  bool become_lost(const std::exception_ptr& error, bool goes_on = false) noexcept;
  void report_lost() noexcept;
  void report_unmarked(const std::exception_ptr& refused) noexcept;
  void lose_if_gone(const std::exception_ptr& error) noexcept;

  // worker.cpp
  void await_space(const Op& op, std::uint64_t value) noexcept;
  template <class Action>
  static void until_possible(const Action& action);
  void start_worker();
  void work() noexcept;
  void end_first(std::list<Pending>& over) noexcept;
  void submit_held(Op& op, std::uint64_t value, std::list<Pending>& over);
  [[nodiscard]] bool await_point(const WaitOp& wait, bool natively);
  [[nodiscard]] bool submit_in_turn(Op& op, std::uint64_t value, std::list<Pending>& over);
  void run_call(CallOp& op, std::uint64_t value, std::list<Pending>& over);

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
  [[nodiscard]] std::exception_ptr mark_for_good() noexcept;
  void end() noexcept;
  /// Waits for the last value of a closed timeline, then tells the attachments on the library's thread.
  struct End : Waiter, Job {
    StreamState* of;
  };

  // waiters.cpp
  friend class detail::Watcher;
  std::size_t settle(std::size_t most, bool watched_only) noexcept;
  void take_passed(std::uint64_t first, std::size_t most, InHand& hand, Kept& of_queue) noexcept;
  void take_giving_up(InHand& hand, Kept& of_queue) noexcept;

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
  sync::Atomic<std::uint32_t> kept_{1};  // one for all uses, the worker, the queue of what waits, and each Kept
  sync::Atomic<Attachment*> attachments_{nullptr};

  sync::Mutex mutex_;
  sync::Condition changed_;                   // of queue_, the turn, submitted_ and lost_
  std::list<Pending> queue_;                  // held back, in order; what the worker is submitting stays in front
  sync::Plain<std::uint64_t> turn_ = 0;       // ticket of the thread that may be inside the first group
  sync::Plain<std::uint64_t> next_turn_ = 0;  // ticket for the next thread that asks
  sync::Plain<bool> inside_ = false;          // a thread is inside the first group
  sync::Plain<bool> unreported_ = false;      // the timeline was lost meanwhile, which that thread is to report
  sync::Plain<bool> worker_ = false;          // a worker thread exists
  sync::Plain<bool> mark_wanted_ = false;     // a mark was asked for while another thread had the turn
  bool forking_ = false;                      // a fork waits for the turn
  bool calling_ = false;                      // the worker is inside a host function
  sync::Plain<bool> forgotten_ = false;       // foreign, and nobody names it: only owners of its memory ask it
  sync::Plain<bool> sealed_ = false;          // foreign and closed: the native stream is not used any more
  bool goes_on_ = false;                      // lost, and the driver still carries out what it has
  std::exception_ptr error_;
  sync::Atomic<bool> lost_{false};
  sync::Atomic<bool> ended_unmarked_{false};  // lost because its last mark was refused
  // Of a lost timeline: from here on, nobody knows when memory is free.
  sync::Atomic<std::uint64_t> never_free_{~std::uint64_t{0}};
  sync::Atomic<std::uint64_t> issued_{0};     // last value given out
  sync::Atomic<std::uint64_t> submitted_{0};  // last value the driver has
  sync::Atomic<std::uint64_t> marked_{0};     // last value that is observable and flushed, or need not be
  sync::Atomic<std::uint64_t> reached_{0};    // last value known to be complete
  sync::Atomic<std::uint64_t> over_{0};       // of a lost timeline: last value known to run no more
  sync::Atomic<std::uint64_t> awaited_{0};    // last value that is waited for without a use of the timeline

  End end_;

  sync::Mutex waiting_mutex_;
  WaiterQueue waiting_;
  sync::Atomic<std::uint32_t> called_{0};  // threads that have waiters in hand and are calling them
  // The library's thread looks after waiters up to this value, or will. If it is not 0, a count is that thread's own.
  sync::Plain<std::uint64_t> watched_to_ = 0;
  StreamState* next_watched_ = nullptr;    // in the list of that thread
  bool listed_ = false;                    // in that list, whose lock guards this

  // For a forked child, in which the worker does not exist.
  enum class First : std::uint8_t { untouched, called, over };
  sync::Thread::id worker_id_;
  sync::Atomic<First> first_{First::untouched};  // how far the worker is with the first operation of queue_
  sync::Atomic<bool> orphaned_{false};           // queue_ is the parent's; needs a new worker when somebody asks
  std::uint64_t inherited_ = 0;                  // the parent's last value, if work was held back at the fork
  ForkLink link_{*this};                         // must be the last member
};

}  // namespace weir::spi
