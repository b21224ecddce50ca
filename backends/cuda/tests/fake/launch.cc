// SPDX-License-Identifier: Apache-2.0
// Host functions, waits for values, and the kernels: one spins until the word that its argument points to is set. The
// tests' own, weir_spin, writes then; their weir_trap faults.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string_view>

#include "world.hpp"

using namespace fake;

namespace {

// Memory has no bell: as the device does, its model looks again and again, until a fault of the context ends that.
template <class Condition>
void poll(Stream& self, int epoch, Condition holds) {
  constexpr std::chrono::microseconds again{50};
  Lock lock(lock_of_all());
  while (!holds() && self.context->epoch() == epoch) self.arrived.wait_for(lock, again);
}

char writes, traps;  // their addresses are the handles of the kernels that do

/// What that one writes, by its other arguments.
struct Write {
  CUdeviceptr at = 0;
  std::size_t bytes = 0;
  unsigned int value = 0;
};

// The host may have written the word after anything that it knows complete.
void learn_from_host(Stream& self) { self.clock.host = world().observed.now(); }

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamWaitValue64(CUstream on, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  ENTER_TO_WORK("cuStreamWaitValue64");
  STREAM(on);
  if (address % sizeof value || flags != CU_STREAM_WAIT_VALUE_GEQ) return violation(call, "not aligned, or not GEQ");
  Job job;
  job.call = call;
  if (const auto refused = touch(call, *stream->context, address, sizeof value, false, job.uses)) return refused;
  job.run = [=, epoch = stream->context->epoch()](Stream& self) {
    poll(self, epoch, [&] {
      auto& word = *reinterpret_cast<cuuint64_t*>(address);
      return static_cast<std::int64_t>(std::atomic_ref(word).load() - value) >= 0;
    });
  };
  job.after = learn_from_host;
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

/// In registered memory, where others look without asking the driver: what they learn by that orders nothing here.
CUresult CUDAAPI cuStreamWriteValue64(CUstream on, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  ENTER_TO_WORK("cuStreamWriteValue64");
  STREAM(on);
  const auto memory = memory_at(address);
  if (address % sizeof value || flags != CU_STREAM_WRITE_VALUE_DEFAULT)
    return violation(call, "not aligned, or no fence");
  if (!memory || !memory->registered) return violation(call, hex(address) + " is not registered memory");
  Job job;
  job.call = call;
  job.run = [=](Stream&) { std::atomic_ref(*reinterpret_cast<cuuint64_t*>(address)).store(value); };
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

/// Functions of different streams run one after the other, which a driver may do. After a fault none is called.
CUresult CUDAAPI cuLaunchHostFunc(CUstream on, CUhostFn function, void* data) {
  ENTER_TO_WORK("cuLaunchHostFunc");
  STREAM(on);
  Job job;
  job.call = call;
  job.run = [=, epoch = stream->context->epoch()](Stream& self) {
    Lock turn(lock_of_all());
    changed().wait(turn, [&] { return !world().in_host_function || self.context->epoch() != epoch; });
    if (self.context->epoch() != epoch) return;
    world().in_host_function = true;
    observe(self.clock);
    turn.unlock();
    here().in_host_function = true;
    function(data);
    here().in_host_function = false;
    turn.lock();
    world().in_host_function = false;
    changed().notify_all();
  };
  job.after = learn_from_host;
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void*) {
  ENTER_IN_CONTEXT("cuModuleLoadData");
  *module = nullptr;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  ENTER_IN_CONTEXT("cuModuleGetFunction");
  *function = nullptr;
  if (std::string_view(name) == "weir_spin") *function = reinterpret_cast<CUfunction>(&writes);
  if (std::string_view(name) == "weir_trap") *function = reinterpret_cast<CUfunction>(&traps);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuLaunchKernel(CUfunction kernel, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                                unsigned int, unsigned int, CUstream on, void** arguments, void**) {
  ENTER_TO_WORK("cuLaunchKernel");
  STREAM(on);
  Job job;
  job.call = call;
  if (kernel == reinterpret_cast<CUfunction>(&traps)) {
    job.run = [](Stream& self) {
      const Lock ended(lock_of_all());
      fault(*self.context, CUDA_ERROR_LAUNCH_FAILED);
    };
    push(stream, std::move(job));
    return CUDA_SUCCESS;
  }
  const auto address = *static_cast<CUdeviceptr*>(arguments[0]);
  if (const auto refused = touch(call, *stream->context, address, sizeof(unsigned int), false, job.uses))
    return refused;
  Write write;
  if (kernel == reinterpret_cast<CUfunction>(&writes)) {
    write = {*static_cast<CUdeviceptr*>(arguments[1]), *static_cast<std::size_t*>(arguments[2]),
             *static_cast<unsigned int*>(arguments[3])};
  }
  bool faults = false;  // as a kernel does that writes where it may only read
  if (write.bytes != 0) {
    const auto target = memory_at(write.at);
    const auto access = target ? target->access.find(stream->context->device) : decltype(target->access)::iterator{};
    faults = target && target->mapped && access != target->access.end() && !access->second;
    if (const auto refused = touch(call, *stream->context, write.at, write.bytes, !faults, job.uses)) return refused;
  }
  job.run = [address, write, faults, epoch = stream->context->epoch()](Stream& self) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds{40};  // less than the watchdog's
    poll(self, epoch, [&] {
      return std::atomic_ref(*reinterpret_cast<unsigned int*>(address)).load() != 0 ||
             std::chrono::steady_clock::now() >= limit;
    });
    if (faults) {
      const Lock ended(lock_of_all());
      return fault(*self.context, CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    std::fill_n(reinterpret_cast<unsigned int*>(write.at), write.bytes / sizeof write.value, write.value);
  };
  push(stream, std::move(job));
  return CUDA_SUCCESS;
}

}  // extern "C"
