// SPDX-License-Identifier: Apache-2.0
#include "sink.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "weir/error.hpp"

namespace weir::test {
namespace {

std::mutex mutex;
std::condition_variable arrived;
std::vector<Reported>& reports() {
  static auto* all = new std::vector<Reported>;  // threads may report while statics are destroyed
  return *all;
}

void collect(const Failure& failure) noexcept {
  const std::lock_guard lock(mutex);
  reports().push_back({std::string(failure.where), std::string(failure.message)});
  arrived.notify_all();
}

}  // namespace

void install_sink() { set_failure_sink(&collect); }

std::vector<Reported> take_reports() {
  const std::lock_guard lock(mutex);
  return std::exchange(reports(), {});
}

std::vector<Reported> await_reports(std::size_t count) {
  std::unique_lock lock(mutex);
  arrived.wait(lock, [&] { return reports().size() >= count; });
  return std::exchange(reports(), {});
}

}  // namespace weir::test
