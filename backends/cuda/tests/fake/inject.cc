// SPDX-License-Identifier: Apache-2.0
// Calls that fail on demand, and faults of the device.
#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "world.hpp"

using namespace fake;

namespace fake {
namespace {

struct Failure {
  std::string call;
  int countdown;
  CUresult code;
};

std::vector<Failure>& failures() {
  static auto& list = *new std::vector<Failure>;
  return list;
}

struct Count {
  const char* call = nullptr;
  std::size_t made = 0;
};

/// For each place that names a call. Counting takes no memory, because a driver does not throw.
std::array<Count, 512>& counts() {
  static std::array<Count, 512> all;
  return all;
}

}  // namespace

// As the documentation has it.
bool sticky(CUresult code) {
  switch (code) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE: return true;
    default: return false;
  }
}

void fault(Context& context, CUresult code) {
  Context& hit = context.whole ? *context.whole : context;
  hit.fault = code;
  ++hit.faults;
  for (const Stream* stream : world().streams) {
    if (&stream->context->base() == &hit) world().observed.raise(stream->id, stream->issued);
  }
  changed().notify_all();
}

CUresult injected(const char* call) {
  Count& count = *std::find_if(counts().begin(), counts().end(),
                               [call](const Count& one) { return !one.call || one.call == call; });
  count.call = call;
  ++count.made;
  for (auto& failure : failures()) {
    if (failure.call != call || --failure.countdown != 0) continue;
    if (sticky(failure.code) && !world().primaries.empty()) {
      fault(here().current.empty() ? *world().primaries[0] : *here().current.back(), failure.code);
    }
    return failure.code;
  }
  return CUDA_SUCCESS;
}

void read_failures() {
  const char* text = getenv("FAKE_CUDA_FAIL");
  std::istringstream list(text ? text : "");
  for (std::string one; std::getline(list, one, ',');) {
    const auto first = one.find(':'), second = one.find(':', first + 1);
    if (second == std::string::npos) continue;
    failures().push_back(
        {one.substr(0, first), atoi(one.c_str() + first + 1), static_cast<CUresult>(atoi(one.c_str() + second + 1))});
  }
}

}  // namespace fake

extern "C" {

/// For tests: the n-th call of that name from now on returns `code`; when that is a fault, so does every later one. 0
/// forgets all failures, and brings contexts with a fault back, without the work that was pending in them.
void fake_cuda_fail(const char* call, int nth, int code) {
  const Lock lock(lock_of_all());
  if (nth != 0) return failures().push_back({call, nth, static_cast<CUresult>(code)});
  failures().clear();
  for (Context* context : world().contexts) context->fault = CUDA_SUCCESS;
}

/// For tests: how often that call was made.
std::size_t fake_cuda_calls(const char* call) {
  const Lock lock(lock_of_all());
  std::size_t made = 0;
  for (const Count& one : counts()) {
    if (one.call && std::string_view(one.call) == call) made += one.made;
  }
  return made;
}

/// For tests: something that runs on the device goes wrong; all work in the primary context ends with it.
void fake_cuda_fault(int device, int code) {
  const Lock lock(lock_of_all());
  fault(*world().primaries.at(static_cast<std::size_t>(device)), static_cast<CUresult>(code));
}

}  // extern "C"
