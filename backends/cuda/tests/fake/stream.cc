// SPDX-License-Identifier: Apache-2.0
// Streams: a thread each while there is work.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "world.hpp"

using namespace fake;

namespace {

// Memory that a stream allocates in its order is there for what comes after.
void check_births(const Stream& stream, const Job& job) {
  for (const MemoryRef& memory : job.uses) {
    if (memory->born == 0 || stream.clock.covers(memory->born_on, memory->born, world().observed)) continue;
    violation(job.call, "stream " + std::to_string(stream.id) + " uses memory that stream " +
                            std::to_string(memory->born_on) + " allocates as its work " + std::to_string(memory->born) +
                            ", and is not ordered after that");
  }
}

void run(Stream* stream, Job& job, Lock& lock) {
  stream->clock.host = std::max(stream->clock.host, job.host);
  const bool alive = job.epoch == stream->context->epoch;
  if (alive) check_births(*stream, job);
  if (alive && job.run) {
    lock.unlock();
    job.run(*stream);
    job.run = nullptr;
    lock.lock();
  }
  stream->clock.raise(stream->id, stream->done + 1);
  if (job.after) job.after(*stream);
  job = {};
  ++stream->done;
  if (stream->work.empty()) stream->clock.catch_up(world().observed);  // as all work to come does
  changed().notify_all();
}

void forget(Stream* stream) {
  world().streams.erase(stream);
  delete stream;
  changed().notify_all();
}

// A thread is there while there is work, and a moment longer.
void run_stream(Stream* stream) {
  constexpr std::chrono::milliseconds linger{5};
  Lock lock(lock_of_all());
  for (const auto since = world().rests;;) {
    const auto called = [&] { return !stream->work.empty() || stream->ended || world().rests != since; };
    (void)stream->arrived.wait_for(lock, linger, called);
    if (stream->work.empty()) break;
    Job job = std::move(stream->work.front());
    stream->work.pop_front();
    run(stream, job, lock);
  }
  stream->running = false;
  if (stream->ended) forget(stream);
}

}  // namespace

namespace fake {

Stream* make_stream(Context* context) {
  auto* const stream = new Stream{};
  stream->context = context;
  stream->id = ++world().last_id;
  world().streams.insert(stream);
  made(Kind::stream);
  return stream;
}

void end_stream(Stream* stream) {
  if (stream->ended) return;
  stream->ended = true;
  ended(Kind::stream);
  if (!stream->running) return forget(stream);
  stream->arrived.notify_all();
}

void push(Stream* stream, Job job) {
  job.epoch = stream->context->epoch;
  ++stream->issued;
  job.host = world().observed.now();
  for (const MemoryRef& memory : job.uses) memory->uses[stream->id] = stream->issued;
  stream->work.push_back(std::move(job));
  if (!std::exchange(stream->running, true)) std::thread(run_stream, stream).detach();
  stream->arrived.notify_all();
}

void push_record(const char* call, Stream* stream, const RecordRef& record) {
  Job job;
  job.call = call;
  job.after = [record](Stream& self) {
    record->complete = true;
    record->clock = self.clock;
    record->clock.raise(self.id, self.done + 1);
  };
  push(stream, std::move(job));
}

void push_wait(const char* call, Stream* stream, const RecordRef& record) {
  if (!record) return;  // never recorded: nothing to wait for
  Job job;
  job.call = call;
  job.run = [record, epoch = stream->context->epoch](Stream& self) {
    Lock lock(lock_of_all());
    changed().wait(lock, [&] { return record->complete || self.context->epoch != epoch; });
  };
  job.after = [record](Stream& self) { self.clock.merge(record->clock); };
  push(stream, std::move(job));
}

void observe(const Clock& clock) {
  for (const auto& [stream, work] : clock.last) world().observed.raise(stream, work);
}

// As the driver orders the legacy stream and the per-thread ones among each other.
static void join(Stream* stream, Stream* other) {
  if (!other || other == stream) return;
  const auto record = std::make_shared<Record>();
  push_record("legacy stream", other, record);
  push_wait("legacy stream", stream, record);
}

CUresult find(const char* call, CUstream handle, bool working, Stream*& found) {
  if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    auto* const stream = reinterpret_cast<Stream*>(handle);
    if (!world().streams.count(stream) || stream->ended) {
      return violation(call, "not a stream, or destroyed", CUDA_ERROR_INVALID_HANDLE);
    }
    if (stream->context->fault) return stream->context->fault;
    if (working && (here().current.empty() || here().current.back() != stream->context)) {
      return violation(call, "another context than the stream's is current", CUDA_ERROR_INVALID_CONTEXT);
    }
    found = stream;
    return CUDA_SUCCESS;
  }
  if (here().current.empty()) {
    return violation(call, "a default stream without a current context", CUDA_ERROR_INVALID_CONTEXT);
  }
  Context* context = here().current.back();
  if (context->destroyed) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (context->fault) return context->fault;
  if (handle == CU_STREAM_PER_THREAD) {
    Stream* mine = nullptr;
    for (std::size_t i = 0; i < here().streams.count; ++i) {
      if (here().streams.items[i].context == context) mine = here().streams.items[i].stream;
    }
    if (!mine) {
      context->per_thread.push_back(mine = make_stream(context));
      here().streams.push_back({context, mine});
    }
    if (working) join(mine, context->legacy);
    found = mine;
    return CUDA_SUCCESS;
  }
  if (!context->legacy) context->legacy = make_stream(context);
  if (working) {
    for (Stream* other : context->per_thread) join(context->legacy, other);
  }
  found = context->legacy;
  return CUDA_SUCCESS;
}

}  // namespace fake

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream* handle, unsigned int) {
  ENTER_IN_CONTEXT("cuStreamCreate");
  *handle = reinterpret_cast<CUstream>(make_stream(here().current.back()));
  return CUDA_SUCCESS;
}

/// Returns at once; the work on it is done.
CUresult CUDAAPI cuStreamDestroy(CUstream handle) {
  ENTER("cuStreamDestroy");
  auto* const stream = reinterpret_cast<Stream*>(handle);
  if (!world().streams.count(stream) || stream->ended) {
    return violation(call, "not a stream, or destroyed twice", CUDA_ERROR_INVALID_HANDLE);
  }
  end_stream(stream);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long* id) {
  ENTER("cuStreamGetId");
  STREAM(handle);
  *id = stream->id;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext* context) {
  ENTER("cuStreamGetCtx");
  STREAM_TO_ASK(handle);
  *context = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  ENTER("cuStreamIsCapturing");
  STREAM_TO_ASK(handle);
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
  STREAM_TO_ASK(handle);
  stream->capturing = false;
  --world().captures;
  *graph = nullptr;
  return world().spoiled ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphDestroy(CUgraph) { return CUDA_SUCCESS; }

CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  ENTER("cuStreamQuery");
  UNSAFE();
  STREAM(handle);
  if (stream->done < stream->issued) return CUDA_ERROR_NOT_READY;
  observe(stream->clock);
  world().observed.raise(stream->id, stream->done);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  ENTER("cuStreamSynchronize");
  UNSAFE();
  STREAM(handle);
  const auto wanted = stream->issued;
  const int epoch = stream->context->epoch;
  changed().wait(lock, [&] { return stream->done >= wanted || stream->context->epoch != epoch; });
  observe(stream->clock);
  world().observed.raise(stream->id, wanted);
  return stream->context->fault;
}

}  // extern "C"
