// SPDX-License-Identifier: Apache-2.0
#include "sink.hpp"

#include <mutex>
#include <utility>

#include "weir/error.hpp"

namespace weir::test {
namespace {

std::mutex mutex;
std::vector<Reported>& reports() {
  static auto* all = new std::vector<Reported>;  // threads may report while statics are destroyed
  return *all;
}

void collect(const Failure& failure) noexcept {
  const std::lock_guard lock(mutex);
  reports().push_back({std::string(failure.where), std::string(failure.message)});
}

}  // namespace

void install_sink() { set_failure_sink(&collect); }

std::vector<Reported> take_reports() {
  const std::lock_guard lock(mutex);
  return std::exchange(reports(), {});
}

}  // namespace weir::test
