// SPDX-License-Identifier: Apache-2.0
#include "driver.hpp"

#include <dlfcn.h>
#include <stdlib.h>

#include <stdexcept>
#include <string_view>

#include "cuda/device.hpp"
#include "cuda/stream.hpp"
#include "loop.hpp"
#include "modelled_driver.hpp"

namespace weir::cuda_test {
namespace {

void* find(const char* name) {
  const char* path = getenv("WEIR_CUDA_LIBRARY");
  void* const library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;  // the same that weir has
  return library ? dlsym(library, name) : nullptr;
}

template <class F>
F get(const char* name) {
  void* const found = find(name);
  if (!found) throw std::runtime_error(std::string("WEIR_CUDA_LIBRARY has no ") + name);
  return reinterpret_cast<F>(found);
}

}  // namespace

bool runs_over_shim() { return find("failing_cuda_arm") != nullptr; }

FailingCuda::FailingCuda()
    : arm_(get<shim::Arm>("failing_cuda_arm")),
      arm_fault_(get<shim::ArmFault>("failing_cuda_arm_fault")),
      disarm_(get<shim::Disarm>("failing_cuda_disarm")),
      calls_(get<shim::Calls>("failing_cuda_calls")),
      alive_(get<shim::Alive>("failing_cuda_alive")),
      around_(get<shim::Around>("failing_cuda_around")),
      idle_(reinterpret_cast<std::size_t (*)()>(test::find_in_model("fake_cuda_live"))) {}

FailingCuda::~FailingCuda() {
  (void)disarm();
  around(nullptr, nullptr);
}

void FailingCuda::arm(std::size_t nth, std::size_t code) { arm_(nth, code); }
void FailingCuda::arm_fault(std::size_t nth) { arm_fault_(nth); }

std::optional<test::Injected> FailingCuda::disarm() {
  shim::Hit hit{};
  disarm_(&hit);
  if (!hit.call) return std::nullopt;
  return test::Injected{hit.call, hit.code, hit.codes};
}

namespace {

// The sum over all CUDA devices.
template <class Count>
std::size_t count_all(Count count) {
  std::size_t sum = 0;
  for (const Device& each : devices()) {
    if (each.backend() == "cuda") sum += count(static_cast<cuda::Gpu&>(each.state()));
  }
  return sum;
}

}  // namespace

std::size_t FailingCuda::lent_streams() {
  return count_all([](cuda::Gpu& gpu) { return gpu.lent_streams().count(); });
}

void FailingCuda::settle() {
  // Streams go when the last thread that worked for them has let them go, of which there is no event.
  const auto settle_devices = [] {
    for (const Device& each : devices()) {
      if (each.backend() != "vulkan") test::settle_core(each);
    }
  };
  const bool gone = test::eventually([&] {
    settle_devices();
    const auto of_pools = count_all([](cuda::Gpu& gpu) { return gpu.pools().count(); });
    return cuda::GpuStream::count() == lent_streams() + of_pools;
  });
  if (!gone) throw std::runtime_error("streams that nobody owns are still there");
  settle_devices();
  if (idle_) (void)idle_();
}

std::map<std::string, long> FailingCuda::alive() {
  std::map<std::string, long> objects;
  for (std::size_t i = 0; i < std::size(shim::sorts); ++i) {
    if (i != shim::events) objects[shim::sorts[i].name] = alive_(i);
  }
  objects["streams"] -= static_cast<long>(lent_streams());  // kept for later
  return objects;
}

long FailingCuda::events() const { return alive_(shim::events); }

const char* FailingCuda::harmless(const test::Injected& hit) {
  const std::string_view call = hit.call;
  if (call == "cuCtxPopCurrent" || call == "cuThreadExchangeStreamCaptureMode") {
    return "it did its work; the error that it tells of is another call's, and comes again";
  }
  if (call == "cuCtxGetCurrent" || call == "cuCtxPushCurrent") return "a release goes on without knowing the context";
  if (call == "cuEventCreate" || call == "cuEventRecord" || call == "cuStreamIsCapturing") {
    return "the point is recorded later, or a pool's own stream waits for it";
  }
  if (call.find("cuMem") == 0 && hit.code == "CUDA_ERROR_OUT_OF_MEMORY") {
    return "memory that was on its way back is waited for, and then there is enough; or exhaustion was to come of it";
  }
  if (call == "cuEventQuery" && hit.code != "CUDA_ERROR_UNKNOWN") {
    return "what is not known to be over is kept, and asked again later";
  }
  if (call == "cuEventSynchronize" && hit.code != "CUDA_ERROR_UNKNOWN") {
    return "the thread that waits for others asks again";
  }
  if (call == "cuStreamQuery" || call == "cuStreamSynchronize") {
    return "an idle stream ends without the host having seen its frees";
  }
  if (call == "cuStreamGetId")
    return "the stream is asked again while its context is current, as older drivers want it";
  if (call == "cuMemGetInfo") return "a number in a message only";
  if (call == "cuMemPoolGetAttribute") return "a number in statistics only";
  if (call == "cuMemFreeAsync") return "the memory is freed in another way";
  if (call == "cuMemGetAllocationGranularity") return "the device is listed without that kind of memory";
  return nullptr;
}

const char* FailingCuda::renewed_after(const test::Injected& hit) {
  for (const char* call :
       {"cuMemFree", "cuMemFreeHost", "cuMemFreeAsync", "cuMemRelease", "cuMemAddressFree", "cuMemUnmap",
        "cuMemPoolDestroy", "cuDestroyExternalMemory", "cuStreamDestroy", "cuCtxPushCurrent"}) {
    if (hit.call == call) return "the driver keeps what it refused to take back";
  }
  return nullptr;
}

}  // namespace weir::cuda_test
