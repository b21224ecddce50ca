// SPDX-License-Identifier: Apache-2.0
#include "labels.hpp"

#include <array>
#include <cstdio>

namespace weir::cli {
namespace {

std::string number(double value, const char* unit) {
  std::array<char, 48> text{};
  const int digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f %s", digits, value, unit);
  return text.data();
}

}  // namespace

std::string size_text(std::size_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.4g %s", value, units[unit]);
  return text.data();
}

std::string time_text(std::chrono::nanoseconds time) {
  const auto ns = static_cast<double>(time.count());
  if (ns < 1e6) return number(ns / 1e3, "µs");
  if (ns < 1e9) return number(ns / 1e6, "ms");
  return number(ns / 1e9, "s");
}

}  // namespace weir::cli
