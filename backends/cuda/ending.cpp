// SPDX-License-Identifier: Apache-2.0
#include "ending.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace weir::cuda {
namespace {

std::atomic<pthread_t> ending{};
constexpr std::chrono::seconds rest_of_process{1};

}  // namespace

ProcessEnds::ProcessEnds(const char* call)
    : Error(Errc::device_lost, std::string(call) + ": CUDA cannot be used any more: the process is ending") {}

// Registered after the driver's own handler, and so called before it.
void watch_end_of_process() noexcept {
  std::atexit([] { ending.store(pthread_self()); });
}

bool process_ends() noexcept { return ending.load() != pthread_t{}; }

void end_call(const char* call) {
  if (!pthread_equal(ending.load(), pthread_self())) std::this_thread::sleep_for(rest_of_process);
  throw ProcessEnds(call);
}

}  // namespace weir::cuda
