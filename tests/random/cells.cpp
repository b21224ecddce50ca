// SPDX-License-Identifier: Apache-2.0
#include "cells.hpp"

#include <algorithm>

namespace weir::test::random {

std::vector<std::size_t> Cells::unordered(const Range& range, const Clock& known) const {
  std::vector<std::size_t> agents;
  for (const Access& access : accesses_) {
    const bool apart = access.range.end <= range.begin || range.end <= access.range.begin;
    if (apart || !(access.range.write || range.write) || known.covers(access.agent, access.step)) continue;
    if (std::find(agents.begin(), agents.end(), access.agent) == agents.end()) agents.push_back(access.agent);
  }
  return agents;
}

void Cells::touch(const Range& range, std::size_t agent, std::uint32_t step) {
  // Whoever comes after this write comes after what it covers.
  if (range.write) {
    std::erase_if(accesses_, [&](const Access& access) {
      return access.range.begin >= range.begin && access.range.end <= range.end;
    });
  }
  accesses_.push_back({range, agent, step});
}

void Cells::lose(std::size_t agent, std::uint32_t done) {
  for (const Access& access : accesses_) {
    if (access.agent != agent || access.step <= done || !access.range.write) continue;
    std::fill(values_.begin() + static_cast<std::ptrdiff_t>(access.range.begin),
              values_.begin() + static_cast<std::ptrdiff_t>(access.range.end), anything);
  }
}

std::vector<Cell> Cells::get(std::size_t begin, std::size_t end) const {
  return {values_.begin() + static_cast<std::ptrdiff_t>(begin),
          values_.begin() + static_cast<std::ptrdiff_t>(end)};
}

void Cells::set(std::size_t begin, std::span<const Cell> values) {
  std::copy(values.begin(), values.end(), values_.begin() + static_cast<std::ptrdiff_t>(begin));
}

void Cells::set(std::size_t begin, std::span<const std::byte> values) {
  std::transform(values.begin(), values.end(), values_.begin() + static_cast<std::ptrdiff_t>(begin),
                 [](std::byte value) { return std::to_integer<Cell>(value); });
}

}  // namespace weir::test::random
