// SPDX-License-Identifier: Apache-2.0
#pragma once
// What must be so while the driver is called, and as it was afterwards: the current context, the capture mode.

#include "driver.hpp"
#include "errors.hpp"

namespace weir::cuda {

/// While it lives, calls of this thread are allowed although somebody captures a graph in global mode: none of weir's
/// calls belongs to a capture, and without this an allocation or an event query would spoil it.
class RelaxedCapture {
 public:
  RelaxedCapture() noexcept { driver().ThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { driver().ThreadExchangeStreamCaptureMode(&mode_); }

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// Makes `context` current, restores what was current before, also none. Newer drivers need no current context where a
/// stream or a pointer names it, older ones do; with the right one current already this costs 10 ns.
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

/// The same for giving back, where nothing may be thrown. When the context cannot be made current, that is reported,
/// and what was to be given back is leaked: `if (!scope) return`.
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
