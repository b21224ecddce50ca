// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <algorithm>
#include <thread>

#include "background.hpp"
#include "base/reports_later.hpp"
#include "blocking_frees.hpp"
#include "destroying.hpp"
#include "ending.hpp"
#include "host_calls.hpp"
#include "stream_registry.hpp"
#include "weir/error.hpp"

namespace weir::cuda {
namespace {

// The system reuses its thread ids; these are never reused.
std::uint64_t this_thread() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t id = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return id;
}

std::atomic<std::size_t> streams{0};

constexpr std::uint64_t everything = ~std::uint64_t{0} - 1;

}  // namespace

GpuStream::Turn::Turn(const GpuStream& stream)
    : scope_(stream.context_), handle_(stream.app_ ? stream.app_turn() : stream.handle()) {
  if (stream.foreign() && !stream.app_) refuse_captured(handle_, stream.device());
}

void refuse_captured(CUstream native, const spi::DeviceState& device) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  check(driver().StreamIsCapturing(native, &status), "cuStreamIsCapturing", device);
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return;
  throw Error(Errc::unsupported, "a CUDA stream of " + device.describe() +
                                     " is being captured; weir cannot put work on it until that ends");
}

GpuStream::GpuStream(Gpu& gpu, CUcontext context, CUstream native, Sort sort)
    : StreamState(gpu),
      context_(context),
      native_(native),
      sort_(sort),
      foreign_(sort == Sort::borrowed || sort == Sort::app) {
  if (native == CU_STREAM_PER_THREAD) thread_ = this_thread();
  events_ = context == gpu.context() ? &gpu.events() : &EventPool::of(context);
  if (context != gpu.context() && driver().StreamGetGreenCtx) {
    CUgreenCtx green = nullptr;
    check(driver().StreamGetGreenCtx(native, &green), "cuStreamGetGreenCtx", gpu);
    green_ = green != nullptr;
  }
}

GpuStream::Counted::Counted() noexcept { ++streams; }
GpuStream::Counted::~Counted() { --streams; }

std::size_t GpuStream::count() noexcept { return streams.load(); }

GpuStream* GpuStream::create(Gpu& gpu) {
  const ContextScope scope(gpu.context());
  CUstream native = nullptr;
  check(driver().StreamCreate(&native, CU_STREAM_NON_BLOCKING), "cuStreamCreate", gpu);
  try {
    return new GpuStream(gpu, gpu.context(), native, Sort::owned);
  } catch (...) {
    (void)destroy_stream(native);
    throw;
  }
}

GpuStream* GpuStream::create_for_context(Gpu& gpu) {
  return new GpuStream(gpu, gpu.context(), CU_STREAM_LEGACY, Sort::whole_context);
}

spi::Ref<spi::StreamState> GpuStream::stand_in() {
  if (sort_ != Sort::borrowed || native_ == CU_STREAM_LEGACY) return {};
  {
    const std::scoped_lock lock(mutex_);  // another thread may borrow the stream with an owner now
    if (owner_) return {};
  }
  if (context_ != gpu().context() || !driver().CtxRecordEvent) return {};
  return spi::Ref<spi::StreamState>::retain(&gpu().whole_context());
}

// From now on the application may destroy its stream, and the driver may reuse the handle.
void GpuStream::do_close() noexcept {
  if (foreign() && !app_) StreamRegistry::get().forget(*this);
}

void GpuStream::destroy() noexcept {
  if (sort_ == Sort::owned) {  // this does not wait: the driver ends the stream when its work is done
    const ReleaseScope scope(context_, device());
    if (scope) {
      see_if_idle(native_);
      report_failure(destroy_stream(native_), "cuStreamDestroy", device());
    }
  }
  delete this;
}

// A per-thread handle means a different stream in every thread. On threads other than its own, the legacy stream stands
// in. It is ordered after everything so far on all per-thread streams, and before everything that follows on them.
CUstream GpuStream::handle() const noexcept {
  return thread_ == 0 || thread_ == this_thread() ? native_ : CU_STREAM_LEGACY;
}

// Every caller waits for what is held back: the first one may still be waiting, or have failed.
CUstream GpuStream::hand_out() {
  device().check_process();
  if (!foreign()) {
    StreamRegistry::get().add(*this);
    foreign_.store(true, std::memory_order_release);
    (void)mark();
  }
  if (const auto last = issued(); !submitted(last)) (void)wait_submitted(last);
  throw_if_lost();
  return native_;
}

void GpuStream::wait_natively() noexcept {
  const ReleaseScope scope(context_, device());
  if (!scope) return;
  if (!app_ || is_named()) {
    return report_failure(driver().StreamSynchronize(handle()), "cuStreamSynchronize", device());
  }
  try {
    const EventRef now = events_->take();
    record_context(now->handle);
    report_failure(driver().EventSynchronize(now->handle), "cuEventSynchronize", device());
  } catch (const std::exception& error) {
    report({std::make_error_code(std::errc::operation_not_supported), "cuda::GpuStream::wait_natively", error.what()});
  }
}

void GpuStream::answered(CUresult result, const char* call) const {
  if (result == CUDA_SUCCESS) return;
  if (result == CUDA_ERROR_DEINITIALIZED) end_call(call);
  const ReleaseScope scope(context_, device());
  if (scope) HostCalls::get().notice(result, context_);
  check(result, call, device());
}

bool GpuStream::outlives_device() noexcept {
  {
    const ReleaseScope scope(context_, device());
    if (scope) HostCalls::get().notice(driver().StreamQuery(CU_STREAM_LEGACY), context_);
  }
  if (HostCalls::get().runs_in(context_)) return true;
  return sides_.are_busy();
}

void GpuStream::do_mark(std::uint64_t value) {
  {
    const std::scoped_lock lock(mutex_);
    if (last_marked_ >= value) return;
  }
  if (app_ && !app_->unmarked.take()) return mark_again(value);
  try {
    EventRef event = events_->take();
    record(event->handle);
    const std::scoped_lock lock(mutex_);
    if (markers_.size() >= ask_at_) bound_markers();
    markers_.push_back({value, std::move(event)});
    last_marked_ = value;
  } catch (const ProcessEnds&) {
    const std::scoped_lock lock(mutex_);
    completed_ = everything;
    return;
  } catch (...) {
    if (app_) app_->unmarked.add();
    throw;
  }
}

void GpuStream::record(CUevent event) {
  if (sort_ == Sort::whole_context) return record_context(event);
  if (app_) return record_app(event);
  const Turn turn(*this);
  answered(driver().EventRecord(event, turn.handle()), "cuEventRecord");
}

// Perhaps nobody ever asks about these markers, so their number is bounded. Beyond the bound, every other marker is
// dropped: the next one covers its points too.
void GpuStream::bound_markers() {
  constexpr std::size_t few = 32, most = 1024;
  const RelaxedCapture relaxed;
  drop_finished_markers();
  if (markers_.size() >= most) {
    std::size_t kept = 0;
    for (std::size_t i = (markers_.size() + 1) % 2; i < markers_.size(); i += 2) {  // keeps the last one
      markers_[kept++] = std::move(markers_[i]);
    }
    markers_.resize(kept);
  }
  ask_at_ = std::clamp(2 * markers_.size(), few, most);
}

void GpuStream::drop_finished_markers() {
  while (!markers_.empty()) {
    const auto state = driver().EventQuery(markers_.front().event->handle);
    if (state == CUDA_ERROR_NOT_READY) break;
    answered(state, "cuEventQuery");
    completed_ = markers_.front().value;
    markers_.pop_front();
  }
}

std::uint64_t GpuStream::do_poll() try {
  const weir::detail::ReportsLater later;  // than the lock: the user's sink may ask this stream
  const RelaxedCapture relaxed;
  const std::scoped_lock lock(mutex_);
  drop_finished_markers();
  return completed_;
} catch (const ProcessEnds&) {
  return everything;
}

EventRef GpuStream::event_after(std::uint64_t value, bool& complete) {
  const std::scoped_lock lock(mutex_);
  complete = completed_ >= value;
  if (complete) return {};
  const auto found = std::lower_bound(markers_.begin(), markers_.end(), value,
                                      [](const Marker& marker, std::uint64_t wanted) { return marker.value < wanted; });
  return found == markers_.end() ? EventRef{} : found->event;
}

WaitStatus GpuStream::do_wait_host(std::uint64_t value, std::chrono::nanoseconds timeout) try {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  bool complete = false;
  const EventRef event = event_after(value, complete);
  if (complete) return WaitStatus::ready;
  if (!event) throw Error(Errc::device_lost, device().describe() + ": a point was waited for that was never recorded");
  const RelaxedCapture relaxed;
  if (timeout.count() < 0) {
    // While a peer is late, wait for it, and not in the driver, which takes a whole processor. The device may end
    // first.
    constexpr std::chrono::milliseconds slice{16};
    while (dependences_.still_after(slice, value)) {
      const auto state = driver().EventQuery(event->handle);
      if (state != CUDA_ERROR_NOT_READY) answered(state, "cuEventQuery");
    }
    answered(driver().EventSynchronize(event->handle), "cuEventSynchronize");
    return WaitStatus::ready;
  }
  // Most waits are short, so poll often at first, and then less and less often.
  constexpr std::chrono::microseconds eager{20}, longest{200};
  for (std::chrono::nanoseconds pause{0};;) {
    const auto state = driver().EventQuery(event->handle);
    if (state == CUDA_SUCCESS) return WaitStatus::ready;
    if (state != CUDA_ERROR_NOT_READY) answered(state, "cuEventQuery");
    const auto waited = Clock::now() - start;
    if (waited >= timeout) return WaitStatus::timeout;
    if (waited < eager) continue;
    pause = std::min<std::chrono::nanoseconds>(longest, pause * 2 + std::chrono::microseconds{5});
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, timeout - waited));
  }
} catch (const ProcessEnds&) {
  return WaitStatus::ready;
}

void GpuStream::launch(std::function<void()>& function) {
  const Turn turn(*this);
  check(HostCalls::get().launch(context_, turn.handle(), function), "cuLaunchHostFunc", device());
}

// By default, a fence for the whole system precedes the store.
void GpuStream::do_store(const spi::StoreOp& op, std::uint64_t /*value*/) {
  const Turn turn(*this);
  check(driver().StreamWriteValue64(turn.handle(), reinterpret_cast<CUdeviceptr>(op.word), op.value,
                                    CU_STREAM_WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue64", device());
}

void GpuStream::do_call(std::function<void()>& function, std::uint64_t /*value*/) { launch(function); }

bool GpuStream::waits_natively(const spi::StreamState& other) const noexcept {
  return other.device().backend == device().backend || foreign();
}

bool GpuStream::may_wait_now(const spi::WaitOp& op) noexcept {
  if (foreign() || !static_cast<GpuStream&>(*op.other).dependences_.reach(op.value)) return true;
  return has_place_ = dependences_.take_place(gpu());
}

// The order of the questions matters. A device that goes on behind a wait that failed does so after the stream is lost,
// and a stream that depends on such a wait depends on it until it is lost.
void GpuStream::do_wait(const spi::WaitOp& op, std::uint64_t value) {
  if (op.other->device().backend != device().backend) return wait_through_host(op, value);
  struct Place {
    ~Place() {
      if (held) stream.dependences_.let_go_of_place(stream.gpu());
    }
    GpuStream& stream;
    bool held;
  } place{*this, std::exchange(has_place_, false)};
  auto& other = static_cast<GpuStream&>(*op.other);
  bool complete = false;
  const EventRef event = other.event_after(op.value, complete);
  const bool depends = other.dependences_.any();
  auto prepared = depends ? other.dependences_.prepare_up_to(op.value, *this, op.for_space) : Dependences::Prepared();
  if (!op.for_space && !other.known_reached(op.value)) other.throw_if_lost();
  if (complete) return;
  if (!event) throw Error(Errc::device_lost, device().describe() + ": a point is waited for that was never recorded");
  {
    const Turn turn(*this);
    check(driver().StreamWaitEvent(turn.handle(), event->handle, 0), "cuStreamWaitEvent", device());
  }
  if (depends) depend_on(std::move(prepared), value);
}

// Nothing is behind the wait yet if its other timeline is lost at this moment.
void GpuStream::depend_on(Dependences::Prepared prepared, std::uint64_t value) noexcept {
  if (const auto error = dependences_.add(std::move(prepared), value)) lose_unready(error);
}

namespace {

// Wait until `op` is over, and return the error if what it waits for will never come.
std::exception_ptr await(const spi::WaitOp& op) {
  for (unsigned round = 0;; ++round) {
    try {
      if (op.other->wait_for(op.value, std::chrono::nanoseconds{-1}) == WaitStatus::ready) return {};
      if (op.for_space && op.other->await_over(op.value)) return {};
      op.other->throw_if_lost();
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported && error.code() != Errc::out_of_memory) return std::current_exception();
    } catch (...) {  // there was no memory to ask
    }
    sync::pause(round);
  }
}

}  // namespace

void GpuStream::wait_through_host(const spi::WaitOp& op, std::uint64_t value) {
  const auto hosted = std::make_shared<HostedWait>(gpu());
  try {
    auto prepared = Dependences::prepare(*this, hosted);
    // Start the thread first: once the stream waits, somebody must be there to end the wait.
    try {
      waiters().run([op, hosted, value, self = spi::Kept(*this)] {
        const weir::detail::ReportsLater later;  // than the end: the user's sink may wait for the device
        const auto error = await(op);
        if (error && op.for_space && !hosted->over()) static_cast<GpuStream&>(*self).never_free_from(value);
        hosted->end(error);
      });
    } catch (const std::system_error& error) {
      throw Error(error.code(), device().describe() + ": no thread to wait for another stream: " + error.what());
    }
    if (const auto& gate = hosted->gate()) {
      const Turn turn(*this);
      check(driver().StreamWaitValue64(turn.handle(), gate->address, gate->value, CU_STREAM_WAIT_VALUE_GEQ),
            "cuStreamWaitValue64", device());
    } else {
      std::function<void()> wait = [hosted] { hosted->wait(); };
      launch(wait);
    }
    depend_on(std::move(prepared), value);
  } catch (...) {
    hosted->cancel();
    throw;
  }
}

}  // namespace weir::cuda
