// SPDX-License-Identifier: Apache-2.0
#include "app_stream.hpp"

#include "context_scope.hpp"
#include "device.hpp"
#include "naming.hpp"
#include "stream.hpp"
#include "weir/error.hpp"

namespace weir::cuda {

thread_local constinit Naming* Naming::innermost = nullptr;

void AppStream::follow(CUstream native, EventPool& events) {
  if (!is_ahead()) return;
  const EventRef after = events.take();
  check(driver().EventRecord(after->handle, side_->handle()), "cuEventRecord", side_->gpu());
  check(driver().StreamWaitEvent(native, after->handle, 0), "cuStreamWaitEvent", side_->gpu());
  ahead_ = false;
}

GpuStream* GpuStream::create_for_app(Gpu& gpu, CUstream native) {
  auto* const made = new GpuStream(gpu, gpu.context(), native, Sort::app);
  try {
    made->app_ = std::make_unique<AppStream>();
  } catch (...) {
    delete made;
    throw;
  }
  return made;
}

// The legacy stream is there as long as the process.
bool GpuStream::is_named() const noexcept { return native_ == CU_STREAM_LEGACY || Naming::names(*this); }

CUstream GpuStream::app_turn() const {
  CUstream handle = native_;
  if (is_named()) {
    refuse_captured(native_, device());
    app_->follow(native_, *events_);
  } else {
    const EventRef now = events_->take();
    record_context(now->handle);
    handle = app_->aside(gpu()).handle();
    check(driver().StreamWaitEvent(handle, now->handle, 0), "cuStreamWaitEvent", device());
  }
  app_->unmarked.add();
  return handle;
}

// While somebody captures a stream of the context, cuCtxRecordEvent fails and spoils the capture. The question about
// the legacy stream finds captures of blocking streams and spoils nothing. Nobody can ask about others.
void GpuStream::record_context(CUevent event) const {
  if (Naming::refuses_context_points()) {
    throw Error(Errc::unsupported, "a stream of " + device().describe() +
                                       " is being captured, and a point of all its streams would spoil that");
  }
  const ContextScope scope(context_);
  refuse_captured(CU_STREAM_LEGACY, device());
  answered(driver().CtxRecordEvent(context_, event), "cuCtxRecordEvent");
}

void GpuStream::record_app(CUevent event) {
  if (!is_named()) {
    app_->was_asked();
    return record_context(event);
  }
  const ContextScope scope(context_);
  refuse_captured(native_, device());
  app_->follow(native_, *events_);
  answered(driver().EventRecord(event, native_), "cuEventRecord");
}

// Nothing was put on the stream since the last mark, so what that one covers is all there is.
void GpuStream::mark_again(std::uint64_t value) {
  const std::scoped_lock lock(mutex_);
  (markers_.empty() ? completed_ : markers_.back().value) = value;
  last_marked_ = value;
}

}  // namespace weir::cuda
