// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timeline on a CUstream. Work goes to the driver at once, and points of the timeline are driver events.

#include <cuda.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>

#include "app_stream.hpp"
#include "context_scope.hpp"
#include "device.hpp"
#include "events.hpp"
#include "hosted_wait.hpp"
#include "side_stream.hpp"
#include "weir/spi/stream_state.hpp"

namespace weir::cuda {

/// Owned streams are non-blocking streams of the primary context. Borrowed streams are the application's, in the
/// context in which they were made. The NULL, legacy and per-thread handles mean the streams of the primary context.
class GpuStream final : public spi::StreamState {
 public:
  static GpuStream* create(Gpu& gpu);
  /// Make a timeline on which no work is put, and whose points cover all work of the primary context. It has no native
  /// stream. Needs cuCtxRecordEvent.
  static GpuStream* create_for_context(Gpu& gpu);
  /// Make a timeline for `native`, a stream of the primary context, or the legacy stream. Nobody owns that stream, and
  /// the application may destroy it at any time (app_stream.hpp). Needs cuCtxRecordEvent.
  static GpuStream* create_for_app(Gpu& gpu, CUstream native);
  /// Return the timeline of `native`. While a timeline of that stream is alive, it is always that one. `owner` is kept
  /// until the timeline ends. Throws incompatible when the stream is of another device.
  static spi::Ref<spi::StreamState> borrow(Gpu& gpu, CUstream native, std::shared_ptr<void> owner);

  /// Return the timeline of everything in the context, for streams that applications may destroy.
  spi::Ref<spi::StreamState> stand_in() override;

  /// Return how many exist, of all devices. For tests that wait until the last owners have released them.
  static std::size_t count() noexcept;

  [[nodiscard]] Gpu& gpu() const noexcept { return gpu_of(device()); }
  /// Return the driver's stream for a call by this thread. Use it only while `context()` is current.
  [[nodiscard]] CUstream handle() const noexcept;
  [[nodiscard]] CUcontext context() const noexcept { return context_; }
  /// Give the native handle out. From then on others may put work on the stream, so weir holds nothing back any more.
  /// Waits until the driver has what was held back.
  CUstream hand_out();

  /// Return the pool from which this stream's events come.
  [[nodiscard]] EventPool& events() const noexcept { return *events_; }

  /// Return what a timeline that was made by create_for_app() knows of its stream; null for all others.
  [[nodiscard]] AppStream* app() const noexcept { return app_.get(); }

  /// Return the waits on which work here depends.
  [[nodiscard]] Dependences& dependences() noexcept { return dependences_; }
  /// One of these will never be over, and the device is about to go on.
  void lose_dependent(const std::exception_ptr& error) noexcept { lose_unready(error); }

  /// Wait on the host for all work that the driver has here, even if the timeline is lost. An error is reported.
  void wait_natively() noexcept;

  /// Makes the right context current for calls on this stream. Throws unsupported when others capture the stream:
  /// weir's work and events have no place in somebody else's graph.
  class Turn {
   public:
    explicit Turn(const GpuStream& stream);
    [[nodiscard]] CUstream handle() const noexcept { return handle_; }

   private:
    ContextScope scope_;
    CUstream handle_;
  };

 protected:
  void do_copy(const spi::CopyOp& op, std::uint64_t value) override;
  void do_fill(const spi::FillOp& op, std::uint64_t value) override;
  void do_copy_region(const spi::RegionOp& op, std::uint64_t value) override;
  void do_prefetch(const spi::PrefetchOp& op, std::uint64_t value) override;
  void do_store(const spi::StoreOp& op, std::uint64_t value) override;
  void do_call(std::function<void()>& function, std::uint64_t value) override;
  void do_wait(const spi::WaitOp& op, std::uint64_t value) override;
  void do_mark(std::uint64_t value) override;
  void do_flush() override {}  // the driver starts work by itself
  std::uint64_t do_poll() override;
  WaitStatus do_wait_host(std::uint64_t value, std::chrono::nanoseconds timeout) override;
  /// Return whether a host function of the context still runs, or work that run_on() put on other devices.
  bool outlives_device() noexcept override;
  bool calls_natively() const noexcept override { return true; }
  bool stores_natively() const noexcept override { return gpu().stores_values(); }
  bool waits_natively(const spi::StreamState& other) const noexcept override;
  bool may_wait_now(const spi::WaitOp& op) noexcept override;
  bool foreign() const noexcept override { return foreign_.load(std::memory_order_acquire); }
  void do_close() noexcept override;
  void destroy() noexcept override;

 private:
  struct Marker {
    std::uint64_t value;
    EventRef event;
  };

  enum class Sort : std::uint8_t { owned, borrowed, whole_context, app };
  GpuStream(Gpu& gpu, CUcontext context, CUstream native, Sort sort);
  void record(CUevent event);
  void record_context(CUevent event) const;

  // app_stream.cpp
  [[nodiscard]] bool is_named() const noexcept;
  [[nodiscard]] CUstream app_turn() const;
  void record_app(CUevent event);
  void mark_again(std::uint64_t value);

  void bound_markers();
  void drop_finished_markers();
  /// Return the first event that covers `value`. Empty if there is none, because the value is complete or was never
  /// marked; `complete` says which.
  EventRef event_after(std::uint64_t value, bool& complete);
  /// Take the driver's answer about the work on this stream; throw when it is an error.
  void answered(CUresult result, const char* call) const;
  void launch(std::function<void()>& function);
  void wait_through_host(const spi::WaitOp& op, std::uint64_t value);
  /// Depend on waits that were put on the stream as the operation `value`.
  void depend_on(Dependences::Prepared prepared, std::uint64_t value) noexcept;
  /// Run `work(stream)` on a stream that reaches memory of the primary context of `gpu`, ordered as if on this one.
  template <class Work>
  void run_on(Gpu& gpu, Work work);

  struct Counted {
    Counted() noexcept;
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    ~Counted();
  };
  Counted counted_;  // first, so that it ends after everything else
  CUcontext context_;
  CUstream native_;
  Sort sort_;
  std::uint64_t thread_ = 0;  // the thread whose per-thread stream it is; 0 for all other streams
  unsigned long long driver_id_ = 0;
  std::atomic<bool> foreign_;
  std::shared_ptr<void> owner_;
  EventPool* events_;

  std::mutex mutex_;
  std::deque<Marker> markers_;  // in order; not known to be complete; bounded
  std::size_t ask_at_ = 0;      // with this many markers, do_mark() queries their events
  std::uint64_t last_marked_ = 0;
  std::uint64_t completed_ = 0;

  bool green_ = false;  // uses a part of the device's processors; its memory is the primary context's
  SideStreams sides_;   // where run_on() has put work
  Dependences dependences_;
  bool has_place_ = false;  // of dependences_, for the next wait; guarded by the turn
  std::unique_ptr<AppStream> app_;

  friend class StreamRegistry;
};

/// Throw unsupported when somebody captures the stream. Most calls on it would spoil that graph, cuStreamGetId and
/// cuStreamQuery among them.
void refuse_captured(CUstream native, const spi::DeviceState& device);

}  // namespace weir::cuda
