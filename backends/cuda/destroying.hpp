// SPDX-License-Identifier: Apache-2.0
#pragma once
// The driver calls that end streams and pools, made one at a time. Concurrent calls crash in this case:
// cuMemPoolDestroy runs on one thread while cuStreamDestroy, on another thread, ends a stream on which memory of that
// pool was freed, and no cuEventSynchronize or cuStreamSynchronize has seen the free yet. (Driver 580.159 crashes
// within a second of such calls; with one call at a time it never did.) An application may end its own pools at any
// time, so call see_if_idle() before a stream ends.

#include "driver.hpp"

namespace weir::cuda {

/// If all work on `stream` is complete, let the host see that it is. Otherwise do nothing; never waits. The stream
/// belongs to the current context.
void see_if_idle(CUstream stream) noexcept;
CUresult destroy_stream(CUstream stream) noexcept;
CUresult destroy_pool(CUmemoryPool pool) noexcept;

}  // namespace weir::cuda
