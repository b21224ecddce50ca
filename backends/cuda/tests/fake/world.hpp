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
#include <string>
#include <vector>

namespace fake {

inline constexpr std::size_t total_bytes = std::size_t{1} << 30, granularity = std::size_t{2} << 20, page = 4096;

struct Context;
struct Stream;

using Lock = std::unique_lock<std::mutex>;
/// Everything below is under this one lock; streams run their work without it.
std::mutex& lock_of_all();
/// Notified whenever something changed that somebody may wait for.
std::condition_variable& changed();

struct Allocation {
  std::size_t size;
  CUmemorytype type;
  bool managed;
  int device;
  bool mapped;  // of a handle
};

struct Handle {
  int fd;
  std::size_t size;
  int device;
  bool exportable;
  int references;
};

struct Range {
  std::size_t size;
};

struct Progress {
  std::uint64_t recorded = 0, completed = 0;
};

struct Event {
  Context* context;
  std::shared_ptr<Progress> progress;
};

struct Context {
  int device = 0;
  Stream* legacy = nullptr;
  std::vector<Stream*> per_thread;
  unsigned long long id = 0;
};

struct Stream {
  Context* context;
  unsigned long long id;
  std::deque<std::function<void()>> work;
  bool ended = false, capturing = false;
  std::uint64_t issued = 0, done = 0;
};

struct Pool {
  int device;
  std::size_t limit;
};

struct World {
  std::map<CUdeviceptr, Allocation> allocations;
  std::map<CUdeviceptr, Range> ranges;
  std::map<CUmemGenericAllocationHandle, Handle> handles;
  std::map<CUdeviceptr, CUmemGenericAllocationHandle> mappings;
  std::vector<Context*> primaries, others;
  std::vector<std::size_t> used;
  std::vector<Pool*> pools;
  unsigned long long last_id = 0;
  int captures = 0;
  bool spoiled = false;
};
World& world();

/// Without a destructor: calls come also while a thread or the process ends.
template <class T>
struct Stack {
  T items[16];
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
/// Whether a call that ends captures in global mode may go on; it spoils them otherwise.
bool safe_while_capturing();

// memory.cc
CUresult allocate(CUdeviceptr* address, std::size_t bytes, CUmemorytype type, bool managed, int device);
CUresult release(CUdeviceptr address);
/// The allocation that covers the address, or null.
const std::pair<const CUdeviceptr, Allocation>* allocation_at(CUdeviceptr address);

// stream.cc
/// The stream that a handle means here; null when it means none.
Stream* find(CUstream handle);
void push(Stream* stream, std::function<void()> job);

// inject.cc
/// The code with which this call is to fail now.
CUresult injected(const char* call);
void read_failures();

}  // namespace fake

#define ENTER(call)                     \
  fake::Lock lock(fake::lock_of_all()); \
  if (const CUresult refused = fake::enter(call)) return refused

#define NEED_CONTEXT() \
  if (fake::here().current.empty()) return CUDA_ERROR_INVALID_CONTEXT

// For calls that end a capture in global mode.
#define UNSAFE() \
  if (!fake::safe_while_capturing()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED

#define STREAM(handle)                             \
  fake::Stream* const stream = fake::find(handle); \
  if (!stream) return CUDA_ERROR_INVALID_CONTEXT;  \
  if (stream->capturing) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
