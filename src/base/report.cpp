// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdio>

#include "base/reports_later.hpp"
#include "weir/error.hpp"

namespace weir {
namespace {

constexpr int lines_per_second = 16;

// The window holds the present second and the number of lines printed in it. Both are in one word, so that no lock is
// needed.
bool may_print() noexcept {
  static std::atomic<std::uint64_t> window{0};
  using namespace std::chrono;
  const auto second =
      static_cast<std::uint64_t>(duration_cast<seconds>(steady_clock::now().time_since_epoch()).count());
  auto seen = window.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint64_t count = (seen >> 16) == second ? (seen & 0xffff) : 0;
    if (count >= lines_per_second) return false;
    if (window.compare_exchange_weak(seen, second << 16 | (count + 1), std::memory_order_relaxed)) return true;
  }
}

void print(const Failure& failure) noexcept {
  if (!may_print()) return;
  std::fprintf(stderr, "weir: %.*s: %.*s\n", static_cast<int>(failure.where.size()), failure.where.data(),
               static_cast<int>(failure.message.size()), failure.message.data());
}

std::atomic<FailureSink> current{&print};

}  // namespace

FailureSink set_failure_sink(FailureSink sink) noexcept {
  return current.exchange(sink ? sink : &print, std::memory_order_acq_rel);
}

void report(const Failure& failure) noexcept {
  if (!detail::ReportsLater::keep(failure)) current.load(std::memory_order_acquire)(failure);
}

}  // namespace weir
