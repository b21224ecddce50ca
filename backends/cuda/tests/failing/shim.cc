// SPDX-License-Identifier: Apache-2.0
// A CUDA driver that passes every call on to another one, FAILING_CUDA_REAL or libcuda.so.1, counts what is made and
// destroyed, and fails the n-th call before that driver sees it. FAILING_CUDA_CALL=<n>,<code> arms it when it is
// loaded.
#include "shim.hpp"

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "codes.hpp"

namespace {

using namespace weir::cuda_test;

void* real_library() {
  static void* const library = [] {
    const char* path = std::getenv("FAILING_CUDA_REAL");
    return dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  }();
  return library;
}

template <class F>
F real(const char* name) {
  void* const library = real_library();
  return library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr;
}

std::array<std::atomic<long>, std::size(shim::sorts)> alive{};

/// What a function does to the numbers of objects.
struct Effect {
  std::size_t sort = 0;
  long change = 0;
};

Effect effect_of(std::string_view call) {
  const auto names = [&](const char* name) { return name && call == name; };
  for (std::size_t i = 0; i < std::size(shim::sorts); ++i) {
    if (std::any_of(std::begin(shim::sorts[i].makers), std::end(shim::sorts[i].makers), names)) return {i, 1};
    if (std::any_of(std::begin(shim::sorts[i].ends), std::end(shim::sorts[i].ends), names)) return {i, -1};
  }
  return {};
}

thread_local std::size_t calls_here = 0;

std::mutex mutex;  // of what follows
std::size_t calls = 0, wanted = 0, wanted_code = 0;
bool wants_fault = false;
shim::Hit hit{};

void arm(std::size_t nth, std::size_t code, bool fault) {
  const std::scoped_lock lock(mutex);
  calls = 0;
  wanted = nth;
  wanted_code = code;
  wants_fault = fault;
  hit = {};
}

/// CUDA_SUCCESS when the call shall work.
CUresult refused(const char* call) {
  ++calls_here;
  const std::scoped_lock lock(mutex);
  if (wanted == 0 || ++calls != wanted) return CUDA_SUCCESS;
  wanted = 0;
  if (wants_fault) {
    hit = {call, "CUDA_ERROR_ILLEGAL_ADDRESS", 1};
    real<void (*)(int, int)>("fake_cuda_fault")(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  const auto codes = shim::codes_of(call);
  const shim::Code& code = codes[wanted_code % codes.size()];
  hit = {call, code.name, codes.size()};
  return code.result;
}

// These put things back as they were. They do so and then tell of an error of earlier work, which is how they can fail.
bool tells_late(std::string_view call) {
  return call == "cuCtxPopCurrent" || call == "cuThreadExchangeStreamCaptureMode";
}

std::atomic<void (*)()> enter{nullptr}, leave{nullptr};

struct Bracket {
  Bracket() { call(enter); }
  Bracket(const Bracket&) = delete;
  Bracket& operator=(const Bracket&) = delete;
  ~Bracket() { call(leave); }
  static void call(const std::atomic<void (*)()>& function) {
    if (auto* const now = function.load()) now();
  }
};

template <class Function, class... Arguments>
CUresult CUDAAPI pass_on(Arguments... arguments) {
  const Bracket bracket;
  static const bool late = tells_late(Function::name);
  static const Effect effect = effect_of(Function::name);
  const CUresult early = refused(Function::name);
  if (early != CUDA_SUCCESS && !late) return early;
  const CUresult result = Function::next(arguments...);
  if (result == CUDA_SUCCESS) alive[effect.sort] += effect.change;
  return early != CUDA_SUCCESS ? early : result;
}

template <class Function, class... Arguments>
void* stand_in(CUresult(CUDAAPI*)(Arguments...)) {
  return reinterpret_cast<void*>(&pass_on<Function, Arguments...>);
}

#define WEIR_CUDA_SYMBOL(symbol, version)                 \
  struct symbol##Function {                               \
    static constexpr const char* name = "cu" #symbol;     \
    static inline decltype(&::cu##symbol) next = nullptr; \
  };
#include "../../symbols.inc"
#undef WEIR_CUDA_SYMBOL
struct MemPrefetchAsyncFunction {
  static constexpr const char* name = "cuMemPrefetchAsync";
  static inline CUresult(CUDAAPI* next)(CUdeviceptr, std::size_t, CUdevice, CUstream) = nullptr;  // of CUDA 8
};

struct StreamGetCaptureInfoFunction {
  static constexpr const char* name = "cuStreamGetCaptureInfo";
  static inline CUresult(CUDAAPI* next)(CUstream, CUstreamCaptureStatus*, cuuint64_t*, CUgraph*, const CUgraphNode**,
                                        std::size_t*) = nullptr;  // of CUDA 11.3
};

struct StreamGetGreenCtxFunction {
  static constexpr const char* name = "cuStreamGetGreenCtx";
  static inline decltype(&::cuStreamGetGreenCtx) next = nullptr;
};

/// What stands in front of the function, or the function itself when it cannot fail or is not weir's.
void* stand_in_for(std::string_view name, void* address) {
  if (name == "cuGetErrorName" || name == "cuGetErrorString") return address;
#define WEIR_CUDA_SYMBOL(symbol, version)                                                 \
  if (name == symbol##Function::name) {                                                   \
    symbol##Function::next = reinterpret_cast<decltype(symbol##Function::next)>(address); \
    return stand_in<symbol##Function>(symbol##Function::next);                            \
  }
#include "../../symbols.inc"
  WEIR_CUDA_SYMBOL(MemPrefetchAsync, 8000)
  WEIR_CUDA_SYMBOL(StreamGetCaptureInfo, 11030)
  WEIR_CUDA_SYMBOL(StreamGetGreenCtx, 12040)
#undef WEIR_CUDA_SYMBOL
  return address;
}

const bool armed_by_environment = [] {
  std::size_t nth = 0, code = 0;
  const char* text = std::getenv("FAILING_CUDA_CALL");
  if (text && std::sscanf(text, "%zu,%zu", &nth, &code) >= 1) arm(nth, code, false);
  return nth != 0;
}();

}  // namespace

extern "C" {

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  const auto next = real<decltype(&::cuDriverGetVersion)>("cuDriverGetVersion");
  return next ? next(version) : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult CUDAAPI cuGetProcAddress(const char* name, void** address, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  const auto next = real<decltype(&::cuGetProcAddress)>("cuGetProcAddress_v2");
  if (!next) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = next(name, address, version, flags, status);
  if (result == CUDA_SUCCESS && *address) *address = stand_in_for(name, *address);
  return result;
}

void failing_cuda_arm(std::size_t nth, std::size_t code) { arm(nth, code, false); }
void failing_cuda_arm_fault(std::size_t nth) { arm(nth, 0, true); }
void failing_cuda_disarm(shim::Hit* out) {
  const std::scoped_lock lock(mutex);
  wanted = 0;
  *out = hit;
  hit = {};
}
void failing_cuda_around(void (*before)(), void (*after)()) {
  enter = before;
  leave = after;
}
std::size_t failing_cuda_calls() { return calls_here; }
long failing_cuda_alive(std::size_t sort) { return alive.at(sort); }

}  // extern "C"
