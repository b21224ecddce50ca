// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the modelled driver knows: its objects, the one lock over them, and what every call does first.

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <list>
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
struct Pool;
struct SharedAllocation;
struct SharedTable;
struct Stream;

using Lock = std::unique_lock<std::mutex>;
/// Everything below is under this one lock; streams run their work without it.
std::mutex& lock_of_all();
/// End the process if it is a fork of the one that called first: real drivers cannot be called there.
void refuse_in_forked_child(const char* call);
/// Notified whenever something changed that somebody may wait for.
std::condition_variable& changed();

/// Bytes that a piece of a stream's work read or wrote.
struct Past {
  CUdeviceptr begin, end;
  bool writes;
  Id stream;
  std::uint64_t work;
};

/// One allocation, or one mapping of a handle. Its pages stay as long as work that was given them is pending, so that a
/// free that comes too early is told and does not crash.
struct Memory {
  CUdeviceptr address = 0;
  std::size_t size = 0;
  CUmemorytype type = CU_MEMORYTYPE_DEVICE;
  bool managed = false;
  int moved_to = CU_DEVICE_INVALID;  // the last prefetch that is over
  int device = 0;
  const Context* context = nullptr;     // whose it is; null: the device's primary one's
  Pool* pool = nullptr;                 // that it is of
  bool mapped = false;                  // a handle's; else with pages of its own
  bool registered = false;              // the program's own pages
  SharedAllocation* shared = nullptr;   // of a pool that other processes import
  CUexternalMemory external = nullptr;  // of which it is, with these pages
  void* pages = nullptr;
  std::size_t pages_size = 0;
  bool freeing = false;  // a free was called: nobody may name it any more
  Id born_on = 0;        // allocated in order of that stream, as this piece of its work
  std::uint64_t born = 0;
  std::map<Id, std::uint64_t> uses;  // work that touches it, the last of each stream
  std::vector<Past> past;            // work that is done on it, but for the oldest
  std::map<int, bool> access;        // of a mapping: devices that may, and whether they may write

  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();
};
using MemoryRef = std::shared_ptr<Memory>;

/// Bytes that a piece of work will read or write.
struct Use {
  MemoryRef memory;
  CUdeviceptr begin, end;
  bool writes;
};

struct Handle {
  int fd;
  std::size_t size;
  int device;
  bool exportable;
  bool imported;  // its size may lie
  int owners;     // handles given out and not released
  int mappings;
  std::size_t begin = 0;  // of the memory in the file
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
  Context* whole = nullptr;  // of a green one: the primary one, which it shares memory and faults with
  Stream* legacy = nullptr;
  std::vector<Stream*> blocking;  // work on the legacy stream waits for theirs, and theirs for its
  Id id = 0;
  bool destroyed = false;
  CUresult fault = CUDA_SUCCESS;  // sticky
  int faults = 0;

  /// Whose memory and faults it has.
  [[nodiscard]] const Context& base() const { return whole ? *whole : *this; }
  /// What calls answer after a fault.
  [[nodiscard]] CUresult answer() const { return base().fault; }
  /// Work of an earlier one died with a fault.
  [[nodiscard]] int epoch() const { return base().faults; }
};

/// A piece of work. `run` without the lock, then `after` with it; of the two only `after` when a fault ended it.
struct Job {
  const char* call = "";
  std::function<void(Stream&)> run, after;
  std::vector<Use> uses;
  Time host = 0;  // when it was put on the stream
  int epoch = 0;
};

struct Stream {
  Context* context;
  Id id;
  bool blocking;
  std::list<Job> work;
  bool running = false, ended = false, capturing = false;
  std::uint64_t issued = 0, done = 0;
  std::condition_variable arrived;  // work, or the end
  std::uint64_t capture = 0;        // the id of its last one
  void* graph = nullptr;            // into which it is being captured
  Clock clock;                      // what is ordered before its next piece of work
};

/// A stream that ended, until the host has seen that its work is complete.
struct End {
  const Context* context;
  Id stream;
  std::uint64_t done;
};

/// What was freed on a stream, and is free for the system once the host has seen that.
struct Freed {
  Id stream;
  std::uint64_t work;
  std::size_t bytes;
};

/// Memory is taken from the device in granules, and kept.
struct Pool {
  int device = 0;
  std::size_t limit = 0;        // of what it holds; 0: the device's
  std::uint64_t threshold = 0;  // of what it keeps when the host synchronizes
  std::size_t reserved = 0, used = 0, most_reserved = 0, most_used = 0;
  std::vector<Freed> unseen;
  bool destroyed = false;
  int fd = -1;             // of a pool that can be shared
  std::uint64_t node = 0;  // of that file
  bool imported = false;
  bool exported = false;  // before that, none of its memory has a name for others
  SharedTable* table = nullptr;
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
  std::vector<Stream*> ended_streams;  // their objects stay, so that no handle means another stream later
  std::vector<End> unseen_ends;
  bool streams_come_again = false;  // but to a test that wants it so
  std::set<Event*> events;
  std::vector<Pool*> default_pools;    // of the devices
  std::set<Pool*> pools, ended_pools;  // no handle means another pool later
  std::vector<std::size_t> used;
  int blocking_frees = 0;  // that wait for a device
  Observed observed;
  Id last_id = 0;
  std::size_t calls = 0;  // of functions of the driver
  int captures = 0;
  std::uint64_t last_capture = 0;
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
/// The fault of the current context, which answers almost every call with it from then on.
CUresult fault_here();
/// The same for calls that need a context: whatever is current, but not destroyed and without a fault.
CUresult enter_in_context(const char* call);
/// Whether a call that ends captures in global mode may go on; it spoils them otherwise.
bool safe_while_capturing();

// violations.cc
/// Record what no correct program does; the test that runs then fails. Returns `code`.
CUresult violation(const char* call, const std::string& what, CUresult code = CUDA_ERROR_INVALID_VALUE);
std::string hex(CUdeviceptr address);
enum class Kind { context, stream, event, allocation, range, handle, mapping, pool, import, count };
void made(Kind kind);
void ended(Kind kind);

// memory.cc
/// Its own pages; `counts`: as memory of the device.
CUresult allocate(CUdeviceptr* address, std::size_t bytes, CUmemorytype type, bool managed, int device, bool counts);
/// Free at once: work that uses it must be known complete. Waits for what is on the device, unless it is a pool's.
CUresult release(const char* call, CUdeviceptr address, bool host, Lock& lock);
/// Whether the device has so much left.
bool fits(int device, std::size_t bytes);
/// What a free removes, its work having been looked at.
void remove(const char* call, const MemoryRef& memory);
/// The allocation that covers the address, or null.
MemoryRef memory_at(CUdeviceptr address);
/// Whether work on `context` may touch these bytes, which goes to `uses`.
CUresult touch(const char* call, const Context& context, CUdeviceptr at, std::size_t bytes, bool writes,
               std::vector<Use>& uses);
/// Tell about the first of `uses` that does not come before `end`.
void check_uses(const char* call, const Memory& memory, const std::map<Id, std::uint64_t>& uses, const Clock& end);
/// What comes before a call that the host makes now.
Clock host_now();

// external.cc
/// Imports of memory of other APIs that are not destroyed.
std::size_t live_imports();
/// Memory of an import is freed.
void unmap_external(const Memory& memory);

// stream.cc
/// The stream that a handle means here. `working`: the call puts work on it, for which older drivers want its context
/// current.
CUresult find(const char* call, CUstream handle, bool working, Stream*& found);
Stream* make_stream(Context* context, bool blocking);
void end_stream(Stream* stream);
void push(Stream* stream, Job job);
/// The host finds complete what comes before.
void observe(const Clock& clock);
/// Whether all that was put so far on streams that work on the legacy stream waits for is done, and on it.
bool legacy_is_done(const Context& context);
/// A point after everything on the stream so far, and a wait for one.
void push_record(const char* call, Stream* stream, const RecordRef& record);
void push_wait(const char* call, Stream* stream, const RecordRef& record);
/// A point after everything so far on all streams of the context and of green ones that share it, destroyed ones too.
RecordRef record_context(const char* call, const Context& context);
/// Whether a stream of the context is being captured.
bool captures(const Context& context);

// pool.cc
/// The host has synchronized: pools give back what is above their threshold.
void synchronized();
/// Threads that are inside cuStreamDestroy, or on their way in.
inline std::atomic<int> ending_streams{0};
/// Whether a pool that ends beside one of them is recorded: by a test in which all of these are the library's.
inline std::atomic<bool> watches_ends{false};
/// Memory of a pool goes back to it: by the host, or as that piece of a stream's work.
void give_to_pool(Pool& pool, std::size_t bytes);
void give_to_pool(Pool& pool, std::size_t bytes, Id stream, std::uint64_t work);

// pool_sharing.cc
/// Memory of a pool that other processes import is freed here.
void forget_shared(const char* call, const Memory& memory);

// inject.cc
/// The code with which this call is to fail now.
CUresult injected(const char* call);
void read_failures();
/// Whether the driver returns that code for ever after.
bool sticky(CUresult code);
/// All work in the context ends here.
void fault(Context& context, CUresult code);

}  // namespace fake

#define ENTER_EVEN_AFTER_A_FAULT(name)  \
  const char* const call = name;        \
  fake::refuse_in_forked_child(call);   \
  fake::Lock lock(fake::lock_of_all()); \
  if (const CUresult refused = fake::enter(call)) return refused

#define ENTER(name)               \
  ENTER_EVEN_AFTER_A_FAULT(name); \
  if (const CUresult refused = fake::fault_here()) return refused

#define ENTER_IN_CONTEXT(name)          \
  const char* const call = name;        \
  fake::refuse_in_forked_child(call);   \
  fake::Lock lock(fake::lock_of_all()); \
  if (const CUresult refused = fake::enter_in_context(call)) return refused

// For calls that put work on a stream.
#define ENTER_TO_WORK(name)                                                     \
  const char* const call = name;                                                \
  fake::refuse_in_forked_child(call);                                           \
  fake::Lock lock(fake::lock_of_all());                                         \
  fake::changed().wait(lock, [] { return fake::world().blocking_frees == 0; }); \
  if (const CUresult refused = fake::enter_in_context(call)) return refused

// For calls that end a capture in global mode.
#define UNSAFE() \
  if (!fake::safe_while_capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED

// For calls that a stream may not capture.
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
