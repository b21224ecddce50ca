// SPDX-License-Identifier: Apache-2.0
// A CUDA driver without a GPU, for tests of the backend's logic: streams are threads, device memory is main memory that
// is unmapped when it is freed, a call from a host function aborts. Any call can be made to fail. Knobs:
//   FAKE_CUDA_DEVICES=n            devices shown (1)
//   FAKE_CUDA_VERSION=n            CUDA version shown (13000)
//   FAKE_CUDA_FAIL=cuMemMap:2:999  the second cuMemMap returns 999; several, separated by commas
#include "world.hpp"

#include <cstdio>

namespace fake {

std::mutex& lock_of_all() {
  static auto& mutex = *new std::mutex;
  return mutex;
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
  if (here().in_host_function) {
    std::fprintf(stderr, "fake CUDA: %s called in a host function\n", call);
    std::abort();
  }
  return injected(call);
}

bool safe_while_capturing() {
  if (!world().captures || here().capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return true;
  world().spoiled = true;
  return false;
}

}  // namespace fake

/// For tests: live allocations, address ranges, handles and mappings together.
extern "C" std::size_t fake_cuda_live() {
  const fake::Lock lock(fake::lock_of_all());
  const auto& all = fake::world();
  return all.allocations.size() + all.ranges.size() + all.handles.size() + all.mappings.size();
}
