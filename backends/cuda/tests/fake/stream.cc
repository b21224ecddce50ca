// SPDX-License-Identifier: Apache-2.0
// Streams: a thread each while there is work.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "world.hpp"

using namespace fake;

namespace {

// Memory that a stream allocates in its order is there for what comes after.
void check_births(const Stream& stream, const Job& job) {
  for (const Use& use : job.uses) {
    const Memory* const memory = use.memory.get();
    if (memory->born == 0 || stream.clock.covers(memory->born_on, memory->born, world().observed)) continue;
    violation(job.call, "stream " + std::to_string(stream.id) + " uses memory that stream " +
                            std::to_string(memory->born_on) + " allocates as its work " + std::to_string(memory->born) +
                            ", and is not ordered after that");
  }
}

// Two pieces of work on the same bytes, one of which writes, have an order. Which of them happens to run first is all
// the same: the other one is told of.
void check_order(const Stream& stream, const Job& job) {
  constexpr std::size_t remembered = 64;
  for (const Use& use : job.uses) {
    auto& past = use.memory->past;
    const auto conflicts = [&](const Past& one) {
      return one.stream != stream.id && one.begin < use.end && use.begin < one.end && (one.writes || use.writes) &&
             !stream.clock.covers(one.stream, one.work, world().observed);
    };
    if (const auto found = std::find_if(past.begin(), past.end(), conflicts); found != past.end()) {
      violation(job.call, "stream " + std::to_string(stream.id) + (use.writes ? " writes " : " reads ") +
                              hex(std::max(use.begin, found->begin)) + ", which work " + std::to_string(found->work) +
                              " of stream " + std::to_string(found->stream) + (found->writes ? " writes" : " reads") +
                              ", and neither is ordered after the other");
    }
    std::erase_if(past, [&](const Past& one) {
      return one.stream == stream.id && use.begin <= one.begin && one.end <= use.end && (use.writes || !one.writes);
    });
    if (past.size() >= remembered) past.erase(past.begin());
    past.push_back({use.begin, use.end, use.writes, stream.id, stream.done + 1});
  }
}

void run(Stream* stream, Job& job, Lock& lock) {
  stream->clock.host = std::max(stream->clock.host, job.host);
  const bool alive = job.epoch == stream->context->epoch();
  if (alive) check_births(*stream, job);
  if (alive) check_order(*stream, job);
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
  std::erase(stream->context->blocking, stream);
  if (stream->context->legacy == stream) stream->context->legacy = nullptr;
  stream->clock = {};
  world().ended_streams.push_back(stream);
  if (stream->done != 0) world().unseen_ends.push_back({stream->context, stream->id, stream->done});
  changed().notify_all();
}

// The host finds all of it complete.
void see(const Stream& stream) {
  observe(stream.clock);
  world().observed.raise(stream.id, stream.done);
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

Stream* make_stream(Context* context, bool blocking) {
  Stream* stream = nullptr;
  if (world().streams_come_again && !world().ended_streams.empty()) {
    stream = world().ended_streams.back();
    world().ended_streams.pop_back();
    std::destroy_at(stream);
    std::construct_at(stream);
  } else {
    stream = new Stream;
  }
  stream->context = context;
  stream->id = ++world().last_id;
  stream->blocking = blocking;
  if (blocking) context->blocking.push_back(stream);
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

namespace {

void append(Stream* stream, Job job) {
  job.epoch = stream->context->epoch();
  ++stream->issued;
  job.host = world().observed.now();
  for (const Use& use : job.uses) use.memory->uses[stream->id] = stream->issued;
  stream->work.push_back(std::move(job));
  if (!std::exchange(stream->running, true)) std::thread(run_stream, stream).detach();
  stream->arrived.notify_all();
}

Job to_record(const char* call, const RecordRef& record) {
  Job job;
  job.call = call;
  job.after = [record](Stream& self) {
    record->complete = true;
    record->clock = self.clock;
    record->clock.raise(self.id, self.done + 1);
  };
  return job;
}

Job to_wait(const char* call, const Stream* stream, const RecordRef& record) {
  Job job;
  job.call = call;
  job.run = [record, epoch = stream->context->epoch()](Stream& self) {
    Lock lock(lock_of_all());
    changed().wait(lock, [&] { return record->complete || self.context->epoch() != epoch; });
  };
  job.after = [record](Stream& self) { self.clock.merge(record->clock); };
  return job;
}

// As the driver orders the legacy stream and the blocking ones among each other.
void join(Stream* stream, Stream* other) {
  if (!other || other == stream || other->issued == 0) return;
  const auto record = std::make_shared<Record>();
  if (other->issued == other->done) {
    record->complete = true;
    record->clock = other->clock;
    record->clock.raise(other->id, other->done);
  } else {
    append(other, to_record("legacy stream", record));
  }
  append(stream, to_wait("legacy stream", stream, record));
}

}  // namespace

void push(Stream* stream, Job job) {
  if (stream == stream->context->legacy) {
    for (Stream* other : stream->context->blocking) join(stream, other);
  } else if (stream->blocking) {
    join(stream, stream->context->legacy);
  }
  append(stream, std::move(job));
}

void push_record(const char* call, Stream* stream, const RecordRef& record) { push(stream, to_record(call, record)); }

// A part of the record for each stream, which does not order the streams among each other.
RecordRef record_context(const char* call, const Context& context) {
  const auto record = std::make_shared<Record>();
  const auto left = std::make_shared<std::size_t>(1);
  const auto end_part = [record, left] { record->complete = --*left == 0; };
  for (Stream* const stream : world().streams) {
    if (&stream->context->base() != &context) continue;
    ++*left;
    Job part;
    part.call = call;
    part.after = [record, end_part](Stream& self) {
      record->clock.merge(self.clock);
      record->clock.raise(self.id, self.done + 1);
      end_part();
    };
    append(stream, std::move(part));
  }
  record->clock.host = world().observed.now();
  std::erase_if(world().unseen_ends, [&](const End& one) {
    return world().observed.covers(one.stream, one.done, record->clock.host);
  });
  for (const End& one : world().unseen_ends) {
    if (&one.context->base() == &context) record->clock.raise(one.stream, one.done);
  }
  end_part();
  return record;
}

void push_wait(const char* call, Stream* stream, const RecordRef& record) {
  if (record) push(stream, to_wait(call, stream, record));  // else never recorded: nothing to wait for
}

bool captures(const Context& context) {
  return std::any_of(world().streams.begin(), world().streams.end(),
                     [&](const Stream* stream) { return stream->capturing && &stream->context->base() == &context; });
}

bool legacy_is_done(const Context& context) {
  const auto done = [](const Stream* stream) { return !stream || stream->done >= stream->issued; };
  return done(context.legacy) && std::all_of(context.blocking.begin(), context.blocking.end(), done);
}

void observe(const Clock& clock) {
  for (const auto& [stream, work] : clock.last) world().observed.raise(stream, work);
}

CUresult find(const char* call, CUstream handle, bool working, Stream*& found) {
  if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
    auto* const stream = reinterpret_cast<Stream*>(handle);
    if (!world().streams.count(stream) || stream->ended) {
      return violation(call, "not a stream, or destroyed", CUDA_ERROR_INVALID_HANDLE);
    }
    if (const CUresult answer = stream->context->answer()) return answer;
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
  if (const CUresult answer = context->answer()) return answer;
  if (handle == CU_STREAM_PER_THREAD) {
    Stream* mine = nullptr;
    for (std::size_t i = 0; i < here().streams.count; ++i) {
      if (here().streams.items[i].context == context) mine = here().streams.items[i].stream;
    }
    if (!mine) here().streams.push_back({context, mine = make_stream(context, true)});
    found = mine;
    return CUDA_SUCCESS;
  }
  if (!context->legacy) context->legacy = make_stream(context, false);
  found = context->legacy;
  return CUDA_SUCCESS;
}

}  // namespace fake

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream* handle, unsigned int flags) {
  ENTER_IN_CONTEXT("cuStreamCreate");
  if (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *handle = reinterpret_cast<CUstream>(make_stream(here().current.back(), flags == CU_STREAM_DEFAULT));
  return CUDA_SUCCESS;
}

/// Returns at once; the work on it is done. Also when it tells of a fault.
CUresult CUDAAPI cuStreamDestroy(CUstream handle) {
  struct Ending {
    Ending() {
      ++fake::ending_streams;
      std::this_thread::yield();
    }
    ~Ending() { --fake::ending_streams; }
  } const ending;  // before the lock, for whoever has it
  ENTER_EVEN_AFTER_A_FAULT("cuStreamDestroy");
  auto* const stream = reinterpret_cast<Stream*>(handle);
  if (!world().streams.count(stream) || stream->ended) {
    return violation(call, "not a stream, or destroyed twice", CUDA_ERROR_INVALID_HANDLE);
  }
  const CUresult answer = stream->context->answer();
  end_stream(stream);
  return answer;
}

CUresult CUDAAPI cuStreamGetId(CUstream handle, unsigned long long* id) {
  ENTER("cuStreamGetId");
  STREAM_TO_ASK(handle);
  if (stream->capturing) {
    world().spoiled = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  *id = stream->id;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamGetCtx(CUstream handle, CUcontext* context) {
  ENTER("cuStreamGetCtx");
  STREAM_TO_ASK(handle);
  if (stream->capturing && world().spoiled) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *context = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  ENTER("cuStreamIsCapturing");
  STREAM_TO_ASK(handle);
  const auto& blocking = stream->context->blocking;
  if (stream == stream->context->legacy &&
      std::any_of(blocking.begin(), blocking.end(), [](const Stream* one) { return one->capturing; })) {
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  *status = stream->capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream->capturing && world().spoiled) *status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamQuery(CUstream handle) {
  ENTER("cuStreamQuery");
  UNSAFE();
  STREAM(handle);
  const bool legacy = stream == stream->context->legacy;
  if (legacy ? !legacy_is_done(*stream->context) : stream->done < stream->issued) return CUDA_ERROR_NOT_READY;
  see(*stream);
  if (legacy) {
    for (const Stream* other : stream->context->blocking) see(*other);
  }
  synchronized();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  ENTER("cuStreamSynchronize");
  UNSAFE();
  STREAM(handle);
  if (stream == stream->context->legacy) push(stream, {});  // it waits for the blocking ones
  const auto wanted = stream->issued;
  const int epoch = stream->context->epoch();
  changed().wait(lock, [&] { return stream->done >= wanted || stream->context->epoch() != epoch; });
  observe(stream->clock);
  world().observed.raise(stream->id, wanted);
  synchronized();
  return stream->context->answer();
}

/// For tests: whether the handles of streams that ended are those of new ones, as real drivers have it.
void fake_cuda_use_stream_handles_again(int yes) {
  const Lock lock(lock_of_all());
  world().streams_come_again = yes != 0;
}

}  // extern "C"
