// SPDX-License-Identifier: Apache-2.0
// Calls that fail on demand.
#include "world.hpp"

#include <sstream>

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

}  // namespace

CUresult injected(const char* call) {
  for (auto& failure : failures()) {
    if (failure.call == call && --failure.countdown == 0) return failure.code;
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

/// For tests: the n-th call of that name from now on returns `code`. 0 forgets all failures.
void fake_cuda_fail(const char* call, int nth, int code) {
  const Lock lock(lock_of_all());
  if (nth == 0)
    failures().clear();
  else
    failures().push_back({call, nth, static_cast<CUresult>(code)});
}

}  // extern "C"
