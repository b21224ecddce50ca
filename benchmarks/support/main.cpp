// SPDX-License-Identifier: Apache-2.0
// The main() of every benchmark program: rows for the first device of every backend, and what the machine is.
#include <benchmark/benchmark.h>

#include <string>

#include "row.hpp"
#include "second_process.hpp"
#include "suite.hpp"

namespace {

#ifdef NDEBUG
constexpr const char* assertions = "off";
#else
constexpr const char* assertions = "on";
#endif
#ifdef __clang__
constexpr const char* compiler = __VERSION__;  // names itself
#else
constexpr const char* compiler = "gcc " __VERSION__;
#endif

void describe(const weir::BackendInfo& backend) {
  const auto say = [&](const char* what, const std::string& text) {
    benchmark::AddCustomContext(backend.name + ' ' + what, text);
  };
  if (backend.devices.empty()) {
    say("missing", backend.unavailable_because);
    return;
  }
  const weir::Device& device = backend.devices.front();
  say("device", std::string(device.name()));
  say("driver", std::string(device.driver()));
  say("is", device.is_gpu() ? "gpu" : "cpu");
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = weir::bench::SecondProcess::run(argc, argv)) return *status;
  weir::bench::choose_min_time(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("compiler", compiler);
  benchmark::AddCustomContext("assertions", assertions);
  for (const weir::BackendInfo& backend : weir::backends()) {
    describe(backend);
    if (!backend.devices.empty()) weir::bench::Suite::add_all(backend.devices.front());
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
