// SPDX-License-Identifier: Apache-2.0
#pragma once
// The driver's calls that end streams and pools, one at a time. Beside each other they crash: cuMemPoolDestroy on one
// thread while cuStreamDestroy ends, on another, a stream on which memory of that pool was freed, before any
// cuEventSynchronize or cuStreamSynchronize has seen the free (seen with driver 580.159 within a second of such calls;
// one at a time, never). An application's pools end when it likes: see_if_idle() before a stream ends.

#include "driver.hpp"

namespace weir::cuda {

/// Have the host see what is over on that stream of the current context, if all of it is. Waits for nothing.
void see_if_idle(CUstream stream) noexcept;
CUresult destroy_stream(CUstream stream) noexcept;
CUresult destroy_pool(CUmemoryPool pool) noexcept;

}  // namespace weir::cuda
