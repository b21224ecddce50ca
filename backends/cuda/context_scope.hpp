// SPDX-License-Identifier: Apache-2.0
#pragma once
// Scopes for driver calls: they set the current context and the capture mode, and restore both at the end.

#include "driver.hpp"
#include "errors.hpp"

namespace weir::cuda {

/// While this object lives, this thread may make driver calls even if somebody captures a graph in global mode. None of
/// weir's calls belongs to a capture. Without this object, an allocation or an event query would spoil the capture.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept { driver().ThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { driver().ThreadExchangeStreamCaptureMode(&mode_); }

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// Makes `context` current. The destructor restores what was current before, even if that was no context. Newer drivers
/// need no current context for calls that name a stream or a pointer of it; older drivers do. If `context` is current
/// already, this costs 10 ns.
class ContextScope {
 public:
  explicit ContextScope(CUcontext context) {
    CUcontext current = nullptr;
    check(driver().CtxGetCurrent(&current), "cuCtxGetCurrent");
    if (current == context) return;
    check(driver().CtxPushCurrent(context), "cuCtxPushCurrent");
    pushed_ = true;
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  ~ContextScope() {
    CUcontext mine = nullptr;
    if (pushed_) driver().CtxPopCurrent(&mine);
  }

 private:
  RelaxedCapture relaxed_;
  bool pushed_ = false;
};

/// The same for code that gives something back and must not throw. If the context cannot be made current, that is
/// reported, and the caller leaks what it was to give back: `if (!scope) return`.
class ReleaseScope {
 public:
  ReleaseScope(CUcontext context, const spi::DeviceState& device) noexcept {
    CUcontext current = nullptr;
    if (driver().CtxGetCurrent(&current) == CUDA_SUCCESS && current == context) return;
    const auto pushed = driver().CtxPushCurrent(context);
    pushed_ = pushed == CUDA_SUCCESS;
    usable_ = pushed_;
    report_failure(pushed, "cuCtxPushCurrent", device);
  }
  ReleaseScope(const ReleaseScope&) = delete;
  ReleaseScope& operator=(const ReleaseScope&) = delete;
  ~ReleaseScope() {
    CUcontext mine = nullptr;
    if (pushed_) driver().CtxPopCurrent(&mine);
  }
  explicit operator bool() const noexcept { return usable_; }

 private:
  RelaxedCapture relaxed_;
  bool pushed_ = false, usable_ = true;
};

}  // namespace weir::cuda
