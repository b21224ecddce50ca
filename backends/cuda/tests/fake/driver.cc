// SPDX-License-Identifier: Apache-2.0
// A CUDA driver without a GPU, for tests of the backend's logic: streams are threads, device memory is main memory that
// is unmapped when it is freed, a call from a host function aborts. Any call can be made to fail. Knobs:
//   FAKE_CUDA_DEVICES=n            devices shown (1)
//   FAKE_CUDA_VERSION=n            CUDA version shown (13000)
//   FAKE_CUDA_FAIL=cuMemMap:2:999  the second cuMemMap returns 999; several, separated by commas
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t total_bytes = std::size_t{1} << 30, granularity = std::size_t{2} << 20, page = 4096;

int number(const char* name, int fallback) {
  const char* text = getenv(name);
  return text && *text ? atoi(text) : fallback;
}

struct Context;
struct Stream;

// Everything below is under this one lock; streams run their work without it.
std::mutex& lock_of_all() {
  static auto& mutex = *new std::mutex;
  return mutex;
}
std::condition_variable& changed() {
  static auto& condition = *new std::condition_variable;
  return condition;
}
using Lock = std::unique_lock<std::mutex>;

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
  struct Failure {
    std::string call;
    int countdown;
    CUresult code;
  };
  std::vector<Failure> failures;
};

World& world() {
  static auto& instance = *new World;
  return instance;
}

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

thread_local Stack<Context*> current;
thread_local Stack<PerThread> own_streams;
thread_local bool in_host_function = false;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// First thing in every call: forbidden places, failures on demand.
CUresult enter(const char* call) {
  if (in_host_function) {
    std::fprintf(stderr, "fake CUDA: %s called in a host function\n", call);
    std::abort();
  }
  for (auto& failure : world().failures) {
    if (failure.call == call && --failure.countdown == 0) return failure.code;
  }
  return CUDA_SUCCESS;
}

#define ENTER(call)         \
  Lock lock(lock_of_all()); \
  if (const CUresult refused = enter(call)) return refused

// Calls that end a capture in global mode.
#define UNSAFE()                                                            \
  if (world().captures && capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) { \
    world().spoiled = true;                                                 \
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;                           \
  }
#define NEED_CONTEXT() \
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT

void run_stream(Stream* stream) {
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

Stream* make_stream(Context* context) {
  auto* stream = new Stream{context, ++world().last_id, {}, false, false, 0, 0};
  std::thread(run_stream, stream).detach();
  return stream;
}

void push(Stream* stream, std::function<void()> job) {
  stream->work.push_back(std::move(job));
  ++stream->issued;
  changed().notify_all();
}

void push_wait(Stream* stream, Stream* other) {
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

// The stream that a handle means here; null when it means none.
Stream* find(CUstream handle) {
  if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) return reinterpret_cast<Stream*>(handle);
  if (current.empty()) return nullptr;
  Context* context = current.back();
  if (handle == CU_STREAM_PER_THREAD) {
    Stream* mine = nullptr;
    for (std::size_t i = 0; i < own_streams.count; ++i) {
      if (own_streams.items[i].context == context) mine = own_streams.items[i].stream;
    }
    if (!mine) {
      context->per_thread.push_back(mine = make_stream(context));
      own_streams.push_back({context, mine});
    }
    push_wait(mine, context->legacy);
    return mine;
  }
  if (!context->legacy) context->legacy = make_stream(context);
  for (Stream* other : context->per_thread) push_wait(context->legacy, other);
  return context->legacy;
}

#define STREAM(handle)                            \
  Stream* const stream = find(handle);            \
  if (!stream) return CUDA_ERROR_INVALID_CONTEXT; \
  if (stream->capturing) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED

void* take_pages(std::size_t bytes) {
  void* memory = mmap(nullptr, (bytes + page - 1) / page * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

CUresult allocate(CUdeviceptr* address, std::size_t bytes, CUmemorytype type, bool managed, int device) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool counts = type == CU_MEMORYTYPE_DEVICE && !managed;
  auto& used = world().used[static_cast<std::size_t>(device)];
  if (bytes > 64 * total_bytes || (counts && bytes > total_bytes - (total_bytes / 16) - used)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  void* memory = take_pages(bytes);
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  if (counts) used += bytes;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  world().allocations[*address] = {bytes, type, managed, device, false};
  return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr address) {
  const auto found = world().allocations.find(address);
  if (found == world().allocations.end() || found->second.mapped) return CUDA_ERROR_INVALID_VALUE;
  const Allocation gone = found->second;
  world().allocations.erase(found);
  if (gone.type == CU_MEMORYTYPE_DEVICE && !gone.managed)
    world().used[static_cast<std::size_t>(gone.device)] -= gone.size;
  munmap(reinterpret_cast<void*>(address), (gone.size + page - 1) / page * page);
  return CUDA_SUCCESS;
}

const std::pair<const CUdeviceptr, Allocation>* allocation_at(CUdeviceptr address) {
  auto next = world().allocations.upper_bound(address);
  if (next == world().allocations.begin()) return nullptr;
  --next;
  return address - next->first < next->second.size ? &*next : nullptr;
}

void drop(CUmemGenericAllocationHandle id) {
  const auto found = world().handles.find(id);
  if (found == world().handles.end() || --found->second.references != 0) return;
  if (found->second.fd >= 0) close(found->second.fd);
  world().used[static_cast<std::size_t>(found->second.device)] -= found->second.size;
  world().handles.erase(found);
}

void read_failures() {
  const char* text = getenv("FAKE_CUDA_FAIL");
  std::istringstream list(text ? text : "");
  for (std::string one; std::getline(list, one, ',');) {
    const auto first = one.find(':'), second = one.find(':', first + 1);
    if (second == std::string::npos) continue;
    world().failures.push_back(
        {one.substr(0, first), atoi(one.c_str() + first + 1), static_cast<CUresult>(atoi(one.c_str() + second + 1))});
  }
}

template <class T>
CUresult set_memory(CUdeviceptr to, std::size_t pitch, T value, std::size_t width, std::size_t height, CUstream on) {
  if (to % sizeof(T) || pitch % sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  STREAM(on);
  const auto* target = allocation_at(to);
  if (target && target->second.type == CU_MEMORYTYPE_DEVICE && !target->second.managed &&
      stream->context != world().primaries[static_cast<std::size_t>(target->second.device)]) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  push(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::fill_n(reinterpret_cast<T*>(to + row * pitch), width, value);
    }
  });
  return CUDA_SUCCESS;
}
int device_count() { return static_cast<int>(world().primaries.size()); }

}  // namespace

extern "C" {

/// For tests: the n-th call of that name from now on returns `code`. 0 forgets all failures.
void fake_cuda_fail(const char* call, int nth, int code) {
  const Lock lock(lock_of_all());
  if (nth == 0)
    world().failures.clear();
  else
    world().failures.push_back({call, nth, static_cast<CUresult>(code)});
}

/// For tests: live allocations, address ranges, handles and mappings together.
std::size_t fake_cuda_live() {
  const Lock lock(lock_of_all());
  return world().allocations.size() + world().ranges.size() + world().handles.size() + world().mappings.size();
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  *version = number("FAKE_CUDA_VERSION", 13000);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned int) {
  const Lock lock(lock_of_all());
  if (!world().primaries.empty()) return CUDA_SUCCESS;
  read_failures();
  if (const auto refused = enter("cuInit")) return refused;
  for (int i = 0; i < number("FAKE_CUDA_DEVICES", 1); ++i)
    world().primaries.push_back(new Context{i, nullptr, {}, ++world().last_id});
  world().used.resize(world().primaries.size());
  return world().primaries.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** text) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *text = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    default: *text = "CUDA_ERROR"; break;
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGetErrorString(CUresult, const char** text) {
  *text = "a failure of the fake driver";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  ENTER("cuDeviceGetCount");
  *count = device_count();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  ENTER("cuDeviceGet");
  if (ordinal < 0 || ordinal >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice) {
  ENTER("cuDeviceGetName");
  std::snprintf(name, static_cast<std::size_t>(length), "Fake GPU");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  ENTER("cuDeviceGetUuid");
  std::memset(uuid->bytes, 0x5a, sizeof uuid->bytes);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice) {
  ENTER("cuDeviceTotalMem");
  *bytes = total_bytes;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  ENTER("cuDeviceGetAttribute");
  *value = 1;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER("cuDevicePrimaryCtxRetain");
  *context = reinterpret_cast<CUcontext>(world().primaries.at(static_cast<std::size_t>(device)));
  return CUDA_SUCCESS;
}

static CUresult CUDAAPI context_create(CUcontext* context, unsigned int, CUdevice device) {
  ENTER("cuCtxCreate");
  auto* made = new Context{device, nullptr, {}, ++world().last_id};
  world().others.push_back(made);
  current.push_back(made);
  *context = reinterpret_cast<CUcontext>(made);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxDestroy(CUcontext) {
  ENTER("cuCtxDestroy");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  ENTER("cuCtxGetCurrent");
  *context = current.empty() ? nullptr : reinterpret_cast<CUcontext>(current.back());
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  ENTER("cuCtxSetCurrent");
  if (!current.empty()) current.pop_back();
  if (context) current.push_back(reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
  ENTER("cuCtxPushCurrent");
  current.push_back(reinterpret_cast<Context*>(context));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) {
  ENTER("cuCtxPopCurrent");
  NEED_CONTEXT();
  *context = reinterpret_cast<CUcontext>(current.back());
  current.pop_back();
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  ENTER("cuCtxGetDevice");
  NEED_CONTEXT();
  *device = current.back()->device;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long* id) {
  ENTER("cuCtxGetId");
  *id = reinterpret_cast<Context*>(context)->id;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  ENTER("cuThreadExchangeStreamCaptureMode");
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  ENTER("cuMemGetInfo");
  NEED_CONTEXT();
  *total = total_bytes;
  *free = total_bytes - world().used[static_cast<std::size_t>(current.back()->device)];
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  ENTER("cuMemAlloc");
  NEED_CONTEXT();
  UNSAFE();
  return allocate(address, bytes, CU_MEMORYTYPE_DEVICE, false, current.back()->device);
}
CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  ENTER("cuMemFree");
  UNSAFE();
  return release(address);
}
CUresult CUDAAPI cuMemHostAlloc(void** memory, size_t bytes, unsigned int) {
  ENTER("cuMemHostAlloc");
  NEED_CONTEXT();
  UNSAFE();
  CUdeviceptr address = 0;
  const auto result = allocate(&address, bytes, CU_MEMORYTYPE_HOST, false, current.back()->device);
  *memory = reinterpret_cast<void*>(address);
  return result;
}
CUresult CUDAAPI cuMemFreeHost(void* memory) {
  ENTER("cuMemFreeHost");
  UNSAFE();
  return release(reinterpret_cast<CUdeviceptr>(memory));
}
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr* address, void* memory, unsigned int) {
  ENTER("cuMemHostGetDevicePointer");
  NEED_CONTEXT();
  *address = reinterpret_cast<CUdeviceptr>(memory);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int) {
  ENTER("cuMemAllocManaged");
  NEED_CONTEXT();
  UNSAFE();
  return allocate(address, bytes, CU_MEMORYTYPE_DEVICE, true, current.back()->device);
}
CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  ENTER("cuMemGetAddressRange");
  const auto* found = allocation_at(address);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  *base = found->first;
  *size = found->second.size;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  ENTER("cuPointerGetAttribute");
  const auto* found = allocation_at(address);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *static_cast<unsigned int*>(data) = found->second.type; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<unsigned int*>(data) = found->second.managed; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(data) = found->second.device; break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(data) = address; break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *static_cast<CUdeviceptr*>(data) = found->first; break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<std::size_t*>(data) = found->second.size; break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                               CUmemAllocationGranularity_flags) {
  ENTER("cuMemGetAllocationGranularity");
  *bytes = granularity;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                             unsigned long long) {
  ENTER("cuMemCreate");
  if (bytes == 0 || bytes % granularity) return CUDA_ERROR_INVALID_VALUE;
  auto& used = world().used[static_cast<std::size_t>(properties->location.id)];
  if (bytes > total_bytes - (total_bytes / 16) - used) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = memfd_create(("fakecuda" + std::to_string(properties->location.id)).c_str(), MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  used += bytes;
  *handle = ++world().last_id;
  world().handles[*handle] = {fd, bytes, properties->location.id,
                              properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER("cuMemRelease");
  if (!world().handles.count(handle)) return CUDA_ERROR_INVALID_VALUE;
  drop(handle);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                        CUmemGenericAllocationHandle handle) {
  ENTER("cuMemGetAllocationPropertiesFromHandle");
  const auto found = world().handles.find(handle);
  if (found == world().handles.end()) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = found->second.device;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  ENTER("cuMemAddressReserve");
  void* memory = mmap(nullptr, bytes + granularity, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto begin = reinterpret_cast<CUdeviceptr>(memory);
  *address = (begin + granularity - 1) / granularity * granularity;
  if (*address != begin) munmap(memory, *address - begin);
  if (const auto rest = begin + granularity - *address) munmap(reinterpret_cast<void*>(*address + bytes), rest);
  world().ranges[*address] = {bytes};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  ENTER("cuMemAddressFree");
  const auto found = world().ranges.find(address);
  if (found == world().ranges.end() || found->second.size != bytes) return CUDA_ERROR_INVALID_VALUE;
  munmap(reinterpret_cast<void*>(address), bytes);
  world().ranges.erase(found);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                          unsigned long long) {
  ENTER("cuMemMap");
  const auto found = world().handles.find(handle);
  if (found == world().handles.end() || offset || bytes != found->second.size) return CUDA_ERROR_INVALID_VALUE;
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.fd, 0) ==
      MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++found->second.references;
  world().mappings[address] = handle;
  world().allocations[address] = {bytes, CU_MEMORYTYPE_DEVICE, false, found->second.device, true};
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemUnmap(CUdeviceptr address, size_t bytes) {
  ENTER("cuMemUnmap");
  const auto found = world().mappings.find(address);
  if (found == world().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
  drop(found->second);
  world().mappings.erase(found);
  world().allocations.erase(address);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t) {
  ENTER("cuMemSetAccess");
  const int mode = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_READ | PROT_WRITE;
  return mprotect(reinterpret_cast<void*>(address), bytes, mode) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult CUDAAPI cuMemExportToShareableHandle(void* fd, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                                              unsigned long long) {
  ENTER("cuMemExportToShareableHandle");
  const auto found = world().handles.find(handle);
  if (found == world().handles.end() || !found->second.exportable) return CUDA_ERROR_INVALID_VALUE;
  const int copy = dup(found->second.fd);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *static_cast<int*>(fd) = copy;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                                CUmemAllocationHandleType) {
  ENTER("cuMemImportFromShareableHandle");
  const int fd = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
  char name[64] = {};
  struct stat status;
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) < 0 ||
      !std::strstr(name, "fakecuda") || fstat(fd, &status) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *handle = ++world().last_id;
  const auto size = static_cast<std::size_t>(status.st_size);
  const int device = atoi(std::strstr(name, "fakecuda") + 8);
  world().used[static_cast<std::size_t>(device)] += size;
  world().handles[*handle] = {copy, size, device, true, 1};
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* properties) {
  ENTER("cuMemPoolCreate");
  world().pools.push_back(new Pool{properties->location.id, properties->maxSize});
  *pool = reinterpret_cast<CUmemoryPool>(world().pools.back());
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool) {
  ENTER("cuMemPoolDestroy");
  return CUDA_SUCCESS;  // its allocations may still count on it
}
CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void*) {
  ENTER("cuMemPoolSetAttribute");
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool handle, CUstream on) {
  ENTER("cuMemAllocFromPoolAsync");
  STREAM(on);
  auto* pool = reinterpret_cast<Pool*>(handle);
  if (pool->limit && bytes > pool->limit) return CUDA_ERROR_OUT_OF_MEMORY;
  return allocate(address, bytes, CU_MEMORYTYPE_DEVICE, false, pool->device);
}
CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream on) {
  ENTER("cuMemAllocAsync");
  STREAM(on);
  return allocate(address, bytes, CU_MEMORYTYPE_DEVICE, false, stream->context->device);
}
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream on) {
  ENTER("cuMemFreeAsync");
  STREAM(on);
  if (!world().allocations.count(address)) return CUDA_ERROR_INVALID_VALUE;
  push(stream, [address] {
    const Lock inner(lock_of_all());
    if (release(address) != CUDA_SUCCESS) std::abort();
  });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream on) {
  ENTER("cuMemcpyAsync");
  STREAM(on);
  const auto* source = allocation_at(from);
  const auto* target = allocation_at(to);
  if (source && target && source->second.type == CU_MEMORYTYPE_HOST && target->second.type == CU_MEMORYTYPE_HOST) {
    std::fprintf(stderr, "fake CUDA: a copy between host memories is synchronous\n");
    std::abort();
  }
  push(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes, CUstream on) {
  ENTER("cuMemcpyPeerAsync");
  STREAM(on);
  push(stream, [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream on) {
  ENTER("cuMemsetD8Async");
  return set_memory(to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream on) {
  ENTER("cuMemsetD16Async");
  return set_memory(to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream on) {
  ENTER("cuMemsetD32Async");
  return set_memory(to, 0, value, count, 1, on);
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
                                    CUstream on) {
  ENTER("cuMemsetD2D32Async");
  return set_memory(to, pitch, value, width, height, on);
}

CUresult CUDAAPI cuStreamCreate(CUstream* handle, unsigned int) {
  ENTER("cuStreamCreate");
  NEED_CONTEXT();
  *handle = reinterpret_cast<CUstream>(make_stream(current.back()));
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
CUresult CUDAAPI cuStreamSynchronize(CUstream handle) {
  ENTER("cuStreamSynchronize");
  UNSAFE();
  STREAM(handle);
  const auto wanted = stream->issued;
  changed().wait(lock, [&] { return stream->done >= wanted; });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamWaitEvent(CUstream on, CUevent handle, unsigned int) {
  ENTER("cuStreamWaitEvent");
  STREAM(on);
  const auto progress = reinterpret_cast<Event*>(handle)->progress;
  push(stream, [progress, wanted = progress->recorded] {
    Lock inner(lock_of_all());
    changed().wait(inner, [&] { return progress->completed >= wanted; });
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuStreamWaitValue64(CUstream on, CUdeviceptr address, cuuint64_t value, unsigned int) {
  ENTER("cuStreamWaitValue64");
  STREAM(on);
  push(stream, [=] {
    auto& word = *reinterpret_cast<cuuint64_t*>(address);
    while (static_cast<std::int64_t>(std::atomic_ref(word).load() - value) < 0) {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchHostFunc(CUstream on, CUhostFn function, void* data) {
  ENTER("cuLaunchHostFunc");
  STREAM(on);
  push(stream, [=] {
    in_host_function = true;
    function(data);
    in_host_function = false;
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventCreate(CUevent* event, unsigned int) {
  ENTER("cuEventCreate");
  NEED_CONTEXT();
  *event = reinterpret_cast<CUevent>(new Event{current.back(), std::make_shared<Progress>()});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventDestroy(CUevent event) {
  ENTER("cuEventDestroy");
  delete reinterpret_cast<Event*>(event);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventRecord(CUevent handle, CUstream on) {
  ENTER("cuEventRecord");
  STREAM(on);
  auto* event = reinterpret_cast<Event*>(handle);
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  event->progress = std::make_shared<Progress>(Progress{1, 0});  // who waits for an earlier record goes on doing so
  push(stream, [progress = event->progress] {
    const Lock inner(lock_of_all());
    progress->completed = 1;
  });
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuEventQuery(CUevent handle) {
  ENTER("cuEventQuery");
  UNSAFE();
  const auto& progress = *reinterpret_cast<Event*>(handle)->progress;
  return progress.completed >= progress.recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
  ENTER("cuEventSynchronize");
  UNSAFE();
  const auto progress = reinterpret_cast<Event*>(handle)->progress;
  changed().wait(lock, [&, wanted = progress->recorded] { return progress->completed >= wanted; });
  return CUDA_SUCCESS;
}

// The one kernel: spins until the word that its argument points to is set.
CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void*) {
  ENTER("cuModuleLoadData");
  *module = nullptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule, const char*) {
  ENTER("cuModuleGetFunction");
  *function = nullptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                unsigned int, unsigned int, CUstream on, void** arguments, void**) {
  ENTER("cuLaunchKernel");
  STREAM(on);
  push(stream, [word = *static_cast<unsigned int**>(arguments[0])] {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    while (!std::atomic_ref(*word).load() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  });
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetProcAddress(const char* name, void** address, int, cuuint64_t, CUdriverProcAddressQueryResult*) {
  static const auto& table = *new std::map<std::string, void*>{
      {"cuCtxCreate", reinterpret_cast<void*>(&context_create)},
#define WEIR_CUDA_SYMBOL(symbol, version) {"cu" #symbol, reinterpret_cast<void*>(&::cu##symbol)},
#include "../../symbols.inc"
      WEIR_CUDA_SYMBOL(CtxDestroy, 0) WEIR_CUDA_SYMBOL(CtxSetCurrent, 0) WEIR_CUDA_SYMBOL(StreamSynchronize, 0)
          WEIR_CUDA_SYMBOL(StreamBeginCapture, 0) WEIR_CUDA_SYMBOL(StreamEndCapture, 0)
              WEIR_CUDA_SYMBOL(GraphDestroy, 0) WEIR_CUDA_SYMBOL(MemAllocAsync, 0) WEIR_CUDA_SYMBOL(ModuleLoadData, 0)
                  WEIR_CUDA_SYMBOL(ModuleGetFunction, 0) WEIR_CUDA_SYMBOL(LaunchKernel, 0)
#undef WEIR_CUDA_SYMBOL
  };
  const auto found = table.find(name);
  *address = found == table.end() ? nullptr : found->second;
  return CUDA_SUCCESS;
}

}  // extern "C"
