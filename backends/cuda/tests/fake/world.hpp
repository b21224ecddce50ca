// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the modelled driver knows: its objects, the one lock over them, and what every call does first.

#include <cuda.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "clock.hpp"

namespace fake {

inline constexpr std::size_t total_bytes = std::size_t{1} << 30, granularity = std::size_t{2} << 20, page = 4096;

struct Context;
struct Stream;

using Lock = std::unique_lock<std::mutex>;
/// Everything below is under this one lock; streams run their work without it.
std::mutex& lock_of_all();
/// Notified whenever something changed that somebody may wait for.
std::condition_variable& changed();

/// One allocation, or one mapping of a handle. Its pages stay as long as work that was given them is pending, so that a
/// free that comes too early is told and does not crash.
struct Memory {
  CUdeviceptr address = 0;
  std::size_t size = 0;
  CUmemorytype type = CU_MEMORYTYPE_DEVICE;
  bool managed = false;
  int moved_to = CU_DEVICE_INVALID;  // the last prefetch that is over
  int device = 0;
  bool mapped = false;   // a handle's; else with pages of its own
  bool freeing = false;  // cuMemFreeAsync was called: nobody may name it any more
  Id born_on = 0;        // allocated in order of that stream, as this piece of its work
  std::uint64_t born = 0;
  std::map<Id, std::uint64_t> uses;  // work that touches it, the last of each stream
  std::map<int, bool> access;        // of a mapping: devices that may, and whether they may write

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();
};
using MemoryRef = std::shared_ptr<Memory>;

struct Handle {
  int fd;
  std::size_t size;
  int device;
  bool exportable;
  int owners;  // handles given out and not released
  int mappings;
};

struct Range {
  std::size_t size;
  bool keep = false;  // work on a mapping in it was pending when that ended: its addresses are never used again
};

/// One cuEventRecord.
struct Record {
  bool complete = false;
  Clock clock;
};
using RecordRef = std::shared_ptr<Record>;

struct Event {
  Context* context;
  RecordRef last;
};

struct Context {
  int device = 0;
  Stream* legacy = nullptr;
  std::vector<Stream*> per_thread;
  Id id = 0;
  bool destroyed = false;
  CUresult fault = CUDA_SUCCESS;  // sticky
  int epoch = 0;                  // work of an earlier one died with a fault
};

/// A piece of work. `run` without the lock, then `after` with it; of the two only `after` when a fault ended it.
struct Job {
  const char* call = "";
  std::function<void(Stream&)> run, after;
  std::vector<MemoryRef> uses;
  Time host = 0;  // when it was put on the stream
  int epoch = 0;
};

struct Stream {
  Context* context;
  Id id;
  std::deque<Job> work;
  bool running = false, ended = false, capturing = false;
  std::uint64_t issued = 0, done = 0;
  std::condition_variable arrived;  // work, or the end
  Clock clock;                      // what is ordered before its next piece of work
};

struct Pool {
  int device;
  std::size_t limit;
};

struct World {
  std::map<CUdeviceptr, MemoryRef> allocations;
  std::map<CUdeviceptr, std::string> gone;  // where memory was that is freed, and by which call
  std::map<CUdeviceptr, Range> ranges;
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  std::map<CUdeviceptr, CUmemGenericAllocationHandle> mappings;
  std::vector<Context*> primaries;
  std::set<Context*> contexts;  // all that were ever made: their objects stay
  std::set<Stream*> streams;
  std::set<Event*> events;
  std::set<Pool*> pools, ended_pools;  // no handle means another pool later
  std::vector<std::size_t> used;
  Observed observed;
  Id last_id = 0;
  int captures = 0;
  std::uint64_t rests = 0;  // changed to send threads without work away
  bool spoiled = false;
  bool gone_with_the_process = false;
  bool in_host_function = false;  // of some stream
};
World& world();

/// Without a destructor: calls come also while a thread or the process ends.
template <class T>
struct Stack {
  T items[8];
  std::size_t count;

  bool empty() const { return count == 0; }
  T& back() { return items[count - 1]; }
  void pop_back() { --count; }
  void push_back(T item) {
    if (count == std::size(items)) std::abort();
    items[count++] = item;
  }
};

struct PerThread {
  Context* context;
  Stream* stream;
};

/// What a thread has of its own.
struct Thread {
  Stack<Context*> current;
  Stack<PerThread> streams;
  bool in_host_function;
  CUstreamCaptureMode capture_mode;
};
Thread& here();

/// Number in the environment.
int number(const char* name, int fallback);

/// First thing in every call: forbidden places, failures on demand.
CUresult enter(const char* call);
/// The same for calls that need a context: whatever is current, but not destroyed and without a fault.
CUresult enter_in_context(const char* call);
/// Whether a call that ends captures in global mode may go on; it spoils them otherwise.
bool safe_while_capturing();

// violations.cc
/// Record what no correct program does; the test that runs then fails. Returns `code`.
CUresult violation(const char* call, const std::string& what, CUresult code = CUDA_ERROR_INVALID_VALUE);
std::string hex(CUdeviceptr address);
enum class Kind { context, stream, event, allocation, range, handle, mapping, pool, count };
void made(Kind kind);
void ended(Kind kind);

// memory.cc
CUresult allocate(CUdeviceptr* address, std::size_t bytes, CUmemorytype type, bool managed, int device);
/// Free at once: work that uses it must be known complete.
CUresult release(const char* call, CUdeviceptr address, bool host);
/// What a free removes, its work having been looked at.
void remove(const char* call, const MemoryRef& memory);
/// The allocation that covers the address, or null.
MemoryRef memory_at(CUdeviceptr address);
/// Whether work on `context` may touch these bytes, which goes to `uses`.
CUresult touch(const char* call, const Context& context, CUdeviceptr at, std::size_t bytes, bool writes,
               std::vector<MemoryRef>& uses);
/// Tell about the first of `uses` that does not come before `end`.
void check_uses(const char* call, const Memory& memory, const std::map<Id, std::uint64_t>& uses, const Clock& end);
/// What comes before a call that the host makes now.
Clock host_now();

// stream.cc
/// The stream that a handle means here. `working`: the call puts work on it, for which older drivers want its context
/// current.
CUresult find(const char* call, CUstream handle, bool working, Stream*& found);
Stream* make_stream(Context* context);
void end_stream(Stream* stream);
void push(Stream* stream, Job job);
/// The host finds complete what comes before.
void observe(const Clock& clock);
/// A point after everything on the stream so far, and a wait for one.
void push_record(const char* call, Stream* stream, const RecordRef& record);
void push_wait(const char* call, Stream* stream, const RecordRef& record);

// inject.cc
/// The code with which this call is to fail now.
CUresult injected(const char* call);
void read_failures();
/// Whether the driver returns that code for ever after.
bool sticky(CUresult code);
/// All work in the context ends here.
void fault(Context& context, CUresult code);

}  // namespace fake

#define ENTER(name)                     \
  const char* const call = name;        \
  fake::Lock lock(fake::lock_of_all()); \
  if (const CUresult refused = fake::enter(call)) return refused

#define ENTER_IN_CONTEXT(name)          \
  const char* const call = name;        \
  fake::Lock lock(fake::lock_of_all()); \
  if (const CUresult refused = fake::enter_in_context(call)) return refused

// For calls that end a capture in global mode.
#define UNSAFE() \
  if (!fake::safe_while_capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED

// For calls that put work on a stream.
#define STREAM(handle)                                                                 \
  fake::Stream* stream = nullptr;                                                      \
  if (const CUresult refused = fake::find(call, handle, true, stream)) return refused; \
  if (stream->capturing) {                                                             \
    fake::world().spoiled = true;                                                      \
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                                      \
  }                                                                                    \
  static_assert(true)

// For calls that only ask about it.
#define STREAM_TO_ASK(handle)     \
  fake::Stream* stream = nullptr; \
  if (const CUresult refused = fake::find(call, handle, false, stream)) return refused
