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

}  // namespace weir::cuda
