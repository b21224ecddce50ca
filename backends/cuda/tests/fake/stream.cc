// SPDX-License-Identifier: Apache-2.0
// Streams: a thread each.
#include "world.hpp"

#include <thread>

using namespace fake;

namespace fake {

static void run_stream(Stream* stream) {
  Lock lock(lock_of_all());
  for (;;) {
    changed().wait(lock, [&] { return !stream->work.empty() || stream->ended; });
    if (stream->work.empty()) break;
    auto job = std::move(stream->work.front());
    stream->work.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
    ++stream->done;
    changed().notify_all();
  }
  delete stream;
}

static Stream* make_stream(Context* context) {
  auto* stream = new Stream{context, ++world().last_id, {}, false, false, 0, 0};
  std::thread(run_stream, stream).detach();
  return stream;
}

void push(Stream* stream, std::function<void()> job) {
  stream->work.push_back(std::move(job));
  ++stream->issued;
  changed().notify_all();
}

static void push_wait(Stream* stream, Stream* other) {
  if (!other || other == stream) return;
  auto passed = std::make_shared<bool>(false);
  push(other, [passed] {
    const Lock lock(lock_of_all());
    *passed = true;
  });
  push(stream, [passed] {
    Lock lock(lock_of_all());
    changed().wait(lock, [&] { return *passed; });
  });
}

Stream* find(CUstream handle) {
  if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) return reinterpret_cast<Stream*>(handle);
  if (here().current.empty()) return nullptr;
  Context* context = here().current.back();
  if (handle == CU_STREAM_PER_THREAD) {
    Stream* mine = nullptr;
    for (std::size_t i = 0; i < here().streams.count; ++i) {
      if (here().streams.items[i].context == context) mine = here().streams.items[i].stream;
    }
    if (!mine) {
      context->per_thread.push_back(mine = make_stream(context));
      here().streams.push_back({context, mine});
    }
    push_wait(mine, context->legacy);
    return mine;
  }
  if (!context->legacy) context->legacy = make_stream(context);
  for (Stream* other : context->per_thread) push_wait(context->legacy, other);
  return context->legacy;
}

}  // namespace fake

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream* handle, unsigned int) {
  ENTER("cuStreamCreate");
  NEED_CONTEXT();
  *handle = reinterpret_cast<CUstream>(make_stream(here().current.back()));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamDestroy(CUstream handle) {
  ENTER("cuStreamDestroy");
  reinterpret_cast<Stream*>(handle)->ended = true;
  changed().notify_all();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long* id) {
  ENTER("cuStreamGetId");
  Stream* const stream = find(handle);
  if (!stream) return CUDA_ERROR_INVALID_CONTEXT;
  *id = stream->id;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext* context) {
  ENTER("cuStreamGetCtx");
  Stream* const stream = find(handle);
  if (!stream) return CUDA_ERROR_INVALID_CONTEXT;
  *context = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  ENTER("cuStreamIsCapturing");
  Stream* const stream = find(handle);
  if (!stream) return CUDA_ERROR_INVALID_CONTEXT;
  *status = stream->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode) {
  ENTER("cuStreamBeginCapture");
  STREAM(handle);
  stream->capturing = true;
  world().spoiled = false;
  ++world().captures;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  ENTER("cuStreamEndCapture");
  find(handle)->capturing = false;
  --world().captures;
  *graph = nullptr;
  return world().spoiled ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphDestroy(CUgraph) { return CUDA_SUCCESS; }
CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  ENTER("cuStreamQuery");
  STREAM(handle);
  return stream->done < stream->issued ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  ENTER("cuStreamSynchronize");
  UNSAFE();
  STREAM(handle);
  const auto wanted = stream->issued;
  changed().wait(lock, [&] { return stream->done >= wanted; });
  return CUDA_SUCCESS;
}

}  // extern "C"
