// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a scenario with its first fallible call failing, then its second, and so on. Each time: the error or a report
// names the call, nothing is left behind, and the same scenario works afterwards.

#include <chrono>
#include <iosfwd>
#include <string>

#include "injector.hpp"
#include "scenarios.hpp"

namespace weir::test {

/// Expect all of that of every call of `scenario` with every code. Records the property injected_failures.
void fail_every_call(const Scenario& scenario, const Stage& stage, Injector& injector);

/// For INSTANTIATE_TEST_SUITE_P over scenarios.
struct ScenarioName {
  template <class Info>
  std::string operator()(const Info& info) const {
    return info.param.name;
  }
};
void PrintTo(const Scenario& scenario, std::ostream* out);

/// What weir's own threads and caches hold for the stage's device and the host goes. For Injector::settle.
void settle_core(const Device& device);

/// While one exists, the library's threads end a moment after their work.
class ShortLinger {
 public:
  ShortLinger();
  ShortLinger(const ShortLinger&) = delete;
  ShortLinger& operator=(const ShortLinger&) = delete;
  ~ShortLinger();

 private:
  const std::chrono::milliseconds before_;
};

/// Wait for the library's threads to end. By then they have reported what failed on them. Return false after a time
/// limit.
bool threads_end();

/// Whether `holds` becomes true. For what other threads let go of a moment after the point that they made is reached:
/// there is no event for that. Gives up when something is certainly wrong.
bool eventually(bool (*holds)(const void*), const void* context);
template <class Predicate>
bool eventually(const Predicate& holds) {
  return eventually([](const void* p) { return (*static_cast<const Predicate*>(p))(); }, &holds);
}

}  // namespace weir::test
