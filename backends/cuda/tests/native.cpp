// SPDX-License-Identifier: Apache-2.0
#include "native.hpp"

#include <dlfcn.h>
#include <stdlib.h>

#include <array>
#include <atomic>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "modelled_driver.hpp"
#include "settle.hpp"

namespace weir::cuda_test {
namespace {

constexpr char spin_source[] = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .entry weir_spin(.param .u64 word, .param .u64 at, .param .u64 bytes, .param .u32 value)
{
  .reg .b64 %a<6>;
  .reg .b32 %v, %t;
  .reg .pred %q;
  ld.param.u64 %a0, [word];
  cvta.to.global.u64 %a0, %a0;
  mov.u64 %a1, %globaltimer;
again:
  ld.volatile.global.u32 %v, [%a0];
  setp.ne.u32 %q, %v, 0;
  @%q bra done;
  mov.u64 %a2, %globaltimer;
  sub.u64 %a2, %a2, %a1;
  setp.lt.u64 %q, %a2, 10000000000;
  @%q bra again;
done:
  ld.param.u64 %a0, [at];
  cvta.to.global.u64 %a0, %a0;
  ld.param.u64 %a1, [bytes];
  ld.param.u32 %v, [value];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %a2, %t, 4;
  mov.u32 %t, %ntid.x;
  mul.wide.u32 %a3, %t, 4;
next:
  setp.ge.u64 %q, %a2, %a1;
  @%q bra over;
  add.u64 %a4, %a0, %a2;
  st.global.u32 [%a4], %v;
  add.u64 %a2, %a2, %a3;
  bra next;
over:
  ret;
}
)";

void must(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) throw std::runtime_error(std::string(call) + " failed: " + std::to_string(result));
}

Api load() {
  const char* path = getenv("WEIR_CUDA_LIBRARY");
  void* library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  const auto find = reinterpret_cast<CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t, void*)>(
      dlsym(library, "cuGetProcAddress_v2"));
  if (!find) throw std::runtime_error("no cuGetProcAddress_v2");
  Api found;
  const auto one = [&](auto& slot, const char* name, int version) {
    void* address = nullptr;
    must(find(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, nullptr), name);
    if (!address) throw std::runtime_error(std::string("no ") + name);
    slot = reinterpret_cast<std::remove_reference_t<decltype(slot)>>(address);
  };
  one(found.CtxCreate, "cuCtxCreate", 3020);
#define WEIR_TEST_LOAD(name, version) one(found.name, "cu" #name, version);
  WEIR_TEST_SYMBOLS(WEIR_TEST_LOAD)
#undef WEIR_TEST_LOAD
  return found;
}

void launch_spin(CUstream stream, unsigned int* word, Busy::Write write) {
  static const CUfunction kernel = [] {
    CUmodule module = nullptr;
    must(api().ModuleLoadData(&module, spin_source), "cuModuleLoadData");
    CUfunction function = nullptr;
    must(api().ModuleGetFunction(&function, module, "weir_spin"), "cuModuleGetFunction");
    return function;
  }();
  auto address = reinterpret_cast<CUdeviceptr>(word);
  std::array<void*, 4> arguments{&address, &write.at, &write.bytes, &write.value};
  constexpr unsigned int threads = 256;
  must(api().LaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, stream, arguments.data(), nullptr), "cuLaunchKernel");
}

bool required() {
  const char* list = getenv("WEIR_REQUIRE");
  return list && std::string_view(list).find("cuda") != std::string_view::npos;
}

}  // namespace

const Api& api() {
  static const Api functions = load();
  return functions;
}

void CudaTest::SetUp() {
  for (const BackendInfo& backend : backends()) {
    if (backend.name != "cuda" || !backend.devices.empty()) continue;
    ASSERT_FALSE(required()) << backend.unavailable_because;
    GTEST_SKIP() << backend.unavailable_because;
  }
  // What earlier tests left is given back now: the driver waits for the device then, and others wait behind it.
  test::await_releases();
}

Current::Current(CUcontext context) : before_(now()) { must(api().CtxSetCurrent(context), "cuCtxSetCurrent"); }
Current::~Current() { EXPECT_CU(api().CtxSetCurrent(before_)); }

CUcontext Current::now() {
  CUcontext context = nullptr;
  must(api().CtxGetCurrent(&context), "cuCtxGetCurrent");
  return context;
}

CUcontext primary(int ordinal) {
  static std::array<CUcontext, 16> contexts{};
  auto& context = contexts.at(static_cast<std::size_t>(ordinal));
  if (!context) must(api().DevicePrimaryCtxRetain(&context, ordinal), "cuDevicePrimaryCtxRetain");
  return context;
}

OtherContext::OtherContext() {
  must(api().CtxCreate(&context_, 0, 0), "cuCtxCreate");
  CUcontext mine = nullptr;
  must(api().CtxPopCurrent(&mine), "cuCtxPopCurrent");
}
OtherContext::~OtherContext() { EXPECT_CU(api().CtxDestroy(context_)); }

NativeStream::NativeStream(CUcontext context, unsigned int flags) : context_(context) {
  const Current current(context_);
  must(api().StreamCreate(&stream_, flags), "cuStreamCreate");
}
void NativeStream::destroy() {
  const Current current(context_);
  EXPECT_CU(api().StreamDestroy(std::exchange(stream_, nullptr)));
}
NativeStream::~NativeStream() {
  if (!stream_) return;
  const Current current(context_);
  EXPECT_CU(api().StreamSynchronize(stream_));
  EXPECT_CU(api().StreamDestroy(stream_));
}

void HandlesComeAgain::set(int yes) {
  const auto use = reinterpret_cast<void (*)(int)>(test::find_in_model("fake_cuda_use_stream_handles_again"));
  if (use) use(yes);
}

Busy::Busy(CUstream stream, const Write& write) : stream_(stream) {
  const Current current(primary());
  void* memory = nullptr;
  must(api().MemHostAlloc(&memory, sizeof *word_, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
       "cuMemHostAlloc");
  word_ = static_cast<unsigned int*>(memory);
  // The first launch loads the kernel, which may wait for the device: not with something on it that waits for us.
  *word_ = 1;
  launch_spin(stream, word_, {});
  must(api().StreamSynchronize(stream), "cuStreamSynchronize");
  *word_ = 0;
  launch_spin(stream, word_, write);
}

void Busy::release() { std::atomic_ref(*word_).store(1); }

Busy::~Busy() {
  release();
  const Current current(primary());
  if (stream_) {
    EXPECT_CU(api().StreamSynchronize(stream_));
  }
  EXPECT_CU(api().MemFreeHost(word_));
}

}  // namespace weir::cuda_test
