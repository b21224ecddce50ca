// SPDX-License-Identifier: Apache-2.0
// A CUDA driver without a GPU, for tests of the backend's logic, as strict as the strictest real one: streams are
// threads, device memory is main memory that is unmapped when it is freed. What a real driver refuses is refused with
// its code, what would be undefined behaviour is recorded (violations.cc), and any call can be made to fail. Knobs:
//   FAKE_CUDA_DEVICES=n            devices shown (1)
//   FAKE_CUDA_UUID=hex             UUID of the first device, 32 digits; the others count up
//   FAKE_CUDA_VERSION=n            CUDA version shown (13000)
//   FAKE_CUDA_LACKS=115,89         attributes of devices (CU_DEVICE_ATTRIBUTE_…) that are 0; all others are 1
//   FAKE_CUDA_FAIL=cuMemMap:2:999  the second cuMemMap returns 999; several, separated by commas
//   FAKE_CUDA_REPORT=1             objects made and destroyed, on stderr at the end of the process
#include "world.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace fake {

std::mutex& lock_of_all() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

void refuse_in_forked_child(const char* call) {
  static const pid_t owner = getpid();
  if (getpid() == owner) return;
  std::fprintf(stderr, "the modelled driver: %s in a forked child\n", call);
  std::abort();
}

std::condition_variable& changed() {
  static auto& condition = *new std::condition_variable;
  return condition;
}

World& world() {
  static auto& instance = *new World;
  return instance;
}

Thread& here() {
  thread_local Thread thread;
  return thread;
}

int number(const char* name, int fallback) {
  const char* text = getenv(name);
  return text && *text ? atoi(text) : fallback;
}

CUresult enter(const char* call) {
  ++world().calls;
  if (here().in_host_function) return violation(call, "called in a host function", CUDA_ERROR_NOT_PERMITTED);
  if (world().primaries.empty()) return violation(call, "called before cuInit", CUDA_ERROR_NOT_INITIALIZED);
  if (world().gone_with_the_process) return CUDA_ERROR_DEINITIALIZED;
  return injected(call);
}

CUresult fault_here() { return here().current.empty() ? CUDA_SUCCESS : here().current.back()->answer(); }

CUresult enter_in_context(const char* call) {
  if (const CUresult refused = enter(call)) return refused;
  if (here().current.empty()) return violation(call, "no context is current", CUDA_ERROR_INVALID_CONTEXT);
  const Context& context = *here().current.back();
  if (context.destroyed) return violation(call, "the current context is destroyed", CUDA_ERROR_CONTEXT_IS_DESTROYED);
  return context.answer();
}

bool safe_while_capturing() {
  if (!world().captures || here().capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return true;
  world().spoiled = true;
  return false;
}

}  // namespace fake

extern "C" {

/// For tests: how many calls there were so far.
std::size_t fake_cuda_all_calls() {
  const fake::Lock lock(fake::lock_of_all());
  return fake::world().calls;
}

}  // extern "C"
