// SPDX-License-Identifier: Apache-2.0
#include "row.hpp"

#include <exception>
#include <string_view>
#include <utility>

namespace weir::bench {
namespace {

// In code, because 1.7 of Google Benchmark wants the argument as "0.05" and 1.8 as "0.05s".
double min_time = 0.05;

}  // namespace

std::string size_name(std::size_t bytes) {
  if (bytes % mib == 0) return std::to_string(bytes / mib) + "MiB";
  if (bytes % kib == 0) return std::to_string(bytes / kib) + "KiB";
  return std::to_string(bytes) + "B";
}

benchmark::internal::Benchmark& add_row(const std::string& name, Body body, Timed timed, Rounds rounds) {
  auto* const row =
      benchmark::RegisterBenchmark(name.c_str(), [body = std::move(body)](benchmark::State& state) {
        try {
          body(state);
        } catch (const std::exception& error) {
          state.SkipWithError(error.what());
        }
      });
  timed == Timed::loop ? row->UseRealTime() : row->UseManualTime();
  if (rounds == Rounds::one) {
    row->Iterations(1);
  } else if (min_time > 0) {
    row->MinTime(min_time);
  }
  return *row;
}

void choose_min_time(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--benchmark_min_time")) min_time = 0;
  }
}

}  // namespace weir::bench
