// SPDX-License-Identifier: Apache-2.0
// Events.
#include "world.hpp"

using namespace fake;

namespace {

CUresult event_of(const char* call, CUevent handle, Event*& found) {
  found = reinterpret_cast<Event*>(handle);
  if (!world().events.count(found)) return violation(call, "not an event, or destroyed", CUDA_ERROR_INVALID_HANDLE);
  if (found->context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return found->context->answer();
}

}  // namespace

#define EVENT(handle)     \
  Event* event = nullptr; \
  if (const CUresult refused = event_of(call, handle, event)) return refused

extern "C" {

CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned int) {
  ENTER_IN_CONTEXT("cuEventCreate");
  auto* const created = new Event{here().current.back(), nullptr};
  world().events.insert(created);
  made(Kind::event);
  *event = reinterpret_cast<CUevent>(created);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent handle) {
  ENTER("cuEventDestroy");
  auto* const event = reinterpret_cast<Event*>(handle);
  if (world().events.erase(event) == 0) {
    return violation(call, "not an event, or destroyed twice", CUDA_ERROR_INVALID_HANDLE);
  }
  delete event;
  ended(Kind::event);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream on) {
  ENTER_TO_WORK("cuEventRecord");
  STREAM(on);
  EVENT(handle);
  if (event->context != stream->context) {
    return violation(call, "an event of another context than the stream's", CUDA_ERROR_INVALID_HANDLE);
  }
  event->last = std::make_shared<Record>();
  push_record(call, stream, event->last);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext of, CUevent handle) {
  ENTER_TO_WORK("cuCtxRecordEvent");
  EVENT(handle);
  auto* const context = reinterpret_cast<Context*>(of);
  if (event->context != context) {
    return violation(call, "an event of another context", CUDA_ERROR_INVALID_HANDLE);
  }
  if (captures(*context)) {
    world().spoiled = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  event->last = record_context(call, *context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream on, CUevent handle, unsigned int) {
  ENTER_TO_WORK("cuStreamWaitEvent");
  STREAM(on);
  EVENT(handle);
  push_wait(call, stream, event->last);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventQuery(CUevent handle) {
  ENTER("cuEventQuery");
  UNSAFE();
  EVENT(handle);
  if (!event->last) return CUDA_SUCCESS;
  if (!event->last->complete) return CUDA_ERROR_NOT_READY;
  observe(event->last->clock);
  synchronized();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
  ENTER("cuEventSynchronize");
  UNSAFE();
  EVENT(handle);
  const RecordRef record = event->last;
  if (!record) return CUDA_SUCCESS;
  const Context& context = event->context->base();
  const int epoch = context.epoch();
  changed().wait(lock, [&] { return record->complete || context.epoch() != epoch; });
  if (context.epoch() != epoch) return context.answer() ? context.answer() : CUDA_ERROR_LAUNCH_FAILED;
  observe(record->clock);
  synchronized();
  return CUDA_SUCCESS;
}

}  // extern "C"
